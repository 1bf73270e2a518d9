//! Answers about the whole fleet that many ask for at the same time, such as open pages after a change: each is made once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The last answers to a few questions.
#[derive(Debug)]
pub(super) struct Latest<Q, T>(Mutex<Vec<Answer<Q, T>>>);

#[derive(Debug)]
struct Answer<Q, T> {
    question: Q,
    begun: Instant,
    answer: Arc<T>,
}

impl<Q, T> Default for Latest<Q, T> {
    fn default() -> Self {
        Latest(Mutex::default())
    }
}

/// The most answers that are kept.
const MOST: usize = 16;

impl<Q: Clone + PartialEq, T> Latest<Q, T> {
    /// The answer to a question that was asked at a moment. It is made, unless somebody began to make it after that moment: so it is never older
    /// than the question.
    pub(super) fn answer<E>(
        &self,
        question: &Q,
        asked: Instant,
        make: impl FnOnce(&Q) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |all: &Vec<Answer<Q, T>>| {
            let known = all
                .iter()
                .find(|known| known.begun >= asked && known.question == *question);
            known.map(|known| known.answer.clone())
        };
        if let Some(answer) = known(&lock()) {
            return Ok(answer);
        }
        let begun = Instant::now();
        let answer = Arc::new(make(question)?);
        let mut all = lock();
        all.retain(|known| known.question != *question || known.begun > begun);
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(Answer {
            question: question.clone(),
            begun,
            answer: answer.clone(),
        });
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shared_by_those_who_asked_before_it_was_begun() {
        let latest = Latest::<&str, u32>::default();
        let ask = |question, asked, made| {
            let answer = latest.answer(&question, asked, |_| Ok::<_, ()>(made));
            *answer.unwrap()
        };
        let early = Instant::now();
        assert_eq!(ask("a", early, 1), 1);
        assert_eq!(ask("a", early, 2), 1, "it was begun after the question");
        assert_eq!(ask("b", early, 3), 3, "another question");
        let late = Instant::now();
        assert_eq!(ask("a", late, 4), 4, "something may have changed since");
        assert_eq!(ask("a", early, 5), 4, "newer than asked for");
        let refused = latest.answer(&"c", early, |_| Err::<u32, _>("no"));
        assert_eq!(refused, Err("no"));
        assert_eq!(ask("c", early, 6), 6, "a refusal is not kept");
        for n in 0..MOST as u32 {
            ask(["d", "e", "f"][n as usize % 3], Instant::now(), n);
        }
        assert!(latest.0.lock().unwrap().len() <= MOST);
    }
}
