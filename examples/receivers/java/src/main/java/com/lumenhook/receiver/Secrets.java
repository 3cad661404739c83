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

/** The secrets of an endpoint, each whole (whsec_…); several after a rotation. */
public final class Secrets {
  /** Written as secrets are: what has a space or a quotation mark in it is none. */
  private static final Pattern SECRET = Pattern.compile("whsec_[A-Za-z0-9+/=_-]+");

  /** Bounds a file of secrets: an endpoint has 25 of 58 bytes at most. */
  private static final int MAX_BYTES = 65_536;

  private static final Logger LOG = System.getLogger(Secrets.class.getName());

  private final Path file; // null: they stay as they are
  private List<String> list;
  private long readFor; // the Unix second in which they were read last

  private Secrets(Path file, List<String> list) {
    this.file = file;
    this.list = check(list);
  }

  /**
   * Secrets that stay as they are.
   *
   * @throws IllegalArgumentException if there is none, or one is no secret
   */
  public static Secrets of(List<String> list) {
    return new Secrets(null, list);
  }

  /**
   * The secrets in a file, one a line. It is read again as webhooks come, once a second at most: a
   * secret that a rotation adds to the file is taken without a restart, and one that is deleted
   * from it no longer.
   *
   * @throws IllegalArgumentException if there is none, or one is no secret
   */
  public static Secrets fromFile(Path file) throws IOException {
    return new Secrets(file, read(file));
  }

  /** The secrets at a time. Those of before stay where the file cannot be read. */
  public synchronized List<String> current(long nowSeconds) {
    if (file == null || readFor == nowSeconds) {
      return list;
    }
    readFor = nowSeconds;
    try {
      list = check(read(file));
    } catch (IOException | IllegalArgumentException e) {
      LOG.log(Level.ERROR, "the secrets stay as they were: " + e.getMessage());
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

  /** Holds that there is a secret, because anybody can sign with an empty one. */
  static List<String> check(List<String> list) {
    String rule = "a secret must be the endpoint's whole secret, which starts with whsec_";
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
