//! Text as JSON has it.

use std::fmt::Write;

/// Text in the quotes of JSON.
pub fn quoted(to: &mut String, text: &str) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                let _ = write!(to, "\\{letter}");
            }
            control if control < ' ' => {
                let _ = write!(to, "\\u{:04x}", u32::from(control));
            }
            letter => to.push(letter),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_kind_is_one_string_of_json() {
        let mut to = String::new();
        quoted(&mut to, "a\"b\\c\n");
        assert_eq!(to, "\"a\\\"b\\\\c\\u000a\"");
    }
}
