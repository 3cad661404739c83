//! Checks requests that were kept as files: verify SECRET KEYS FILE…
mod verify;

use http::{HeaderMap, HeaderName, HeaderValue};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let keys: Vec<&str> = args[1].split(',').collect();
    for file in &args[2..] {
        let request = std::fs::read(file)?;
        let end = request.windows(4).position(|w| w == b"\r\n\r\n").ok_or("no headers")?;
        let mut headers = HeaderMap::new();
        for line in std::str::from_utf8(&request[..end])?.split("\r\n").skip(1) {
            let (name, value) = line.split_once(": ").ok_or("no header")?;
            headers.insert(name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?);
        }
        let body = &request[end + 4..];
        say(file, "v1", verify::verify(&args[0], body, &headers));
        say(file, "v1a", verify::verify_publicly(&keys, body, &headers));
    }
    Ok(())
}

fn say<E: std::fmt::Display>(file: &str, version: &str, checked: Result<(), E>) {
    match checked {
        Ok(()) => println!("{file} {version} verified"),
        Err(refused) => println!("{file} {version} refused: {refused}"),
    }
}
