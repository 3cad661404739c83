package com.lumenhook.receiver;

import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;

/** An endpoint's complete secrets (whsec_…). There are several after a rotation. */
public final class Secrets {
  /** Matches a secret. It rejects spaces and quotation marks. */
  private static final Pattern SECRET = Pattern.compile("whsec_[A-Za-z0-9+/=_-]+");

  /** Bounds a file of secrets. An endpoint has at most 25 secrets of 58 bytes. */
  private static final int MAX_BYTES = 65_536;

  private static final Logger LOG = System.getLogger(Secrets.class.getName());

  private final Path file; // null: the secrets never change
  private List<String> list;
  private long readFor; // the Unix second of the last read

  private Secrets(Path file, List<String> list) {
    this.file = file;
    this.list = check(list);
  }

  /**
   * Returns secrets that never change.
   *
   * @throws IllegalArgumentException if there is no secret, or one is invalid
   */
  public static Secrets of(List<String> list) {
    return new Secrets(null, list);
  }

  /**
   * Returns the secrets in a file, one per line. It picks up changes of the file when webhooks
   * arrive, at most once per second. You can add and remove secrets without a restart.
   *
   * @throws IllegalArgumentException if there is no secret, or one is invalid
   */
  public static Secrets fromFile(Path file) throws IOException {
    return new Secrets(file, read(file));
  }

  /** Returns the secrets at a time. If the file can't be read, it returns the previous ones. */
  public synchronized List<String> current(long nowSeconds) {
    if (file == null || readFor == nowSeconds) {
      return list;
    }
    readFor = nowSeconds;
    try {
      list = check(read(file));
    } catch (IOException | IllegalArgumentException e) {
      LOG.log(Level.ERROR, "cannot read the secrets; keeping the previous ones: " + e.getMessage());
    }
    return list;
  }

  private static List<String> read(Path file) throws IOException {
    if (!Files.exists(file) || Files.isDirectory(file)) {
      throw new NoSuchFileException("there is no file \"" + file + "\"");
    }
    try (InputStream in = Files.newInputStream(file)) {
      byte[] text = in.readNBytes(MAX_BYTES + 1);
      if (text.length > MAX_BYTES) {
        throw new IllegalArgumentException(file + " is too large for a file of secrets");
      }
      String lines = new String(text, StandardCharsets.UTF_8).trim();
      return lines.isEmpty() ? List.of() : List.of(lines.split("\\s+"));
    }
  }

  /** Requires valid secrets, because anyone can sign with an empty one. */
  static List<String> check(List<String> list) {
    String rule = "a secret must be the endpoint's complete secret, starting with whsec_";
    if (list.isEmpty()) {
      throw new IllegalArgumentException("there is no secret: " + rule);
    }
    for (String secret : list) {
      if (!SECRET.matcher(secret).matches()) {
        throw new IllegalArgumentException(rule);
      }
    }
    return List.copyOf(list);
  }
}
