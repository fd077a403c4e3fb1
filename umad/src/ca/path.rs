//! Paths of limited length, cut off as rdma-core's are.

use core::ffi::CStr;

/// Bytes of a path with its NUL.
const ROOM: usize = 256;

/// A path.
pub struct Path {
    text: [u8; ROOM],
    length: usize,
}

impl Path {
    /// Parts joined by slashes.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut path = Self { text: [0; ROOM], length: 0 };
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                path.push(b"/");
            }
            path.push(part);
        }
        path
    }

    /// Adds `bytes`, as far as there is room.
    pub fn push(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(ROOM - 1 - self.length);
        self.text[self.length..self.length + length].copy_from_slice(&bytes[..length]);
        self.length += length;
    }

    /// Up to the first NUL.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }
}

/// A number in decimal, as it stands in a path.
pub struct Decimal {
    digits: [u8; 11],
    start: usize,
}

impl Decimal {
    /// The digits of `number`.
    #[must_use]
    pub fn of(number: i32) -> Self {
        let mut decimal = Self { digits: [0; 11], start: 11 };
        let mut rest = number.unsigned_abs();
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'-';
        }
        decimal
    }

    /// The digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_cut_off() {
        assert_eq!(Path::of(&[b"/sys", b"x", b"1"]).as_c_str(), c"/sys/x/1");
        let long = [b'a'; 300];
        let mut path = Path::of(&[&long]);
        assert_eq!(path.as_c_str().to_bytes(), &long[..255]);
        path.push(b"more");
        assert_eq!(path.as_c_str().to_bytes().len(), 255);
    }

    #[test]
    fn numbers_are_spelled_whole() {
        for number in [0, 7, 10, -1, 191, i32::MAX, i32::MIN] {
            assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
