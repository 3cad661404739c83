/** @type {import("next").NextConfig} */
export default {
  // The database is native code, which is loaded and not bundled.
  serverExternalPackages: ["libsql"],
  distDir: "build",
  turbopack: { root: new URL("../..", import.meta.url).pathname },
};
