//! Memory that stands before another one.

/// The methods of [`Memory`](softrdma::queues::shared::Memory) that are those of the memory in a field:
/// `pass_on!(FIELD: WHAT...)`, with `load`, `store`, `exchange`, `many` (several words at once) and `shape`
/// (which objects there are, and of which size).
#[macro_export]
macro_rules! pass_on {
    ($field:tt: $($what:ident)+) => { $($crate::pass_on!(@ $field $what);)+ };
    (@ $field:tt load) => {
        fn load(&self, word: softrdma::queues::shared::Word) -> u64 {
            self.$field.load(word)
        }
    };
    (@ $field:tt store) => {
        fn store(&self, word: softrdma::queues::shared::Word, value: u64) {
            self.$field.store(word, value);
        }
    };
    (@ $field:tt exchange) => {
        fn compare_exchange(&self, word: softrdma::queues::shared::Word, before: u64, now: u64) -> bool {
            self.$field.compare_exchange(word, before, now)
        }
    };
    (@ $field:tt many) => {
        fn load_all(&self, first: softrdma::queues::shared::Word, values: &mut [u64]) {
            self.$field.load_all(first, values);
        }

        fn store_all(&self, first: softrdma::queues::shared::Word, values: &[u64]) {
            self.$field.store_all(first, values);
        }
    };
    (@ $field:tt shape) => {
        fn exists(&self, object: softrdma::queues::shared::Object) -> bool {
            self.$field.exists(object)
        }

        fn capacity(&self, object: softrdma::queues::shared::Object) -> u32 {
            self.$field.capacity(object)
        }

        fn receive_words(&self, queue: softrdma::queues::shared::Object) -> u32 {
            self.$field.receive_words(queue)
        }

        fn entry_words(&self, cq: u32) -> u32 {
            self.$field.entry_words(cq)
        }
    };
}
