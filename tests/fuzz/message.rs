//! What holds for every message.

/// A message is one short line without control characters.
pub fn one_line(message: &str) {
    assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() < 4096, "a message of {} bytes", message.len());
}
