//! Fields of a message: whole bytes by their offset, parts of a byte from the most significant bit on.

/// A part of a message that is read.
pub(super) struct Fields<'a>(pub &'a [u8]);

/// A part of a message that is written; it is zero before.
pub(super) struct FieldsMut<'a>(pub &'a mut [u8]);

impl Fields<'_> {
    /// `bits` (a multiple of 8, at most 64) from byte `at`, in network order.
    pub fn get(&self, at: usize, bits: usize) -> u64 {
        self.0[at..at + bits / 8].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// `bits` of byte `at`, of which `skip` more significant ones do not belong to the field.
    pub fn part(&self, at: usize, skip: usize, bits: usize) -> u8 {
        self.0[at] << skip >> (8 - bits)
    }

    /// Bytes.
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.0[at + i])
    }
}

impl FieldsMut<'_> {
    /// The reverse of [`Fields::get`]; what does not fit is cut.
    pub fn put(&mut self, at: usize, bits: usize, value: u64) {
        let bytes = value.to_be_bytes();
        self.0[at..at + bits / 8].copy_from_slice(&bytes[8 - bits / 8..]);
    }

    /// The reverse of [`Fields::part`]; what does not fit is cut.
    pub fn put_part(&mut self, at: usize, skip: usize, bits: usize, value: u8) {
        let mask = (0xffu16 >> (8 - bits)) as u8;
        self.0[at] |= (value & mask) << (8 - skip - bits);
    }

    /// Bytes.
    pub fn put_bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
