//! New tokens of the server.

use fleet::identity::{Role, Time, Token, token_text};

/// A token that was just made. Its text is shown once and never stored.
pub struct NewToken {
    pub text: String,
    pub stored: Token,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken")
            .field("id", &self.stored.id)
            .finish_non_exhaustive()
    }
}

impl NewToken {
    pub fn generate(role: Role, created_at: Time, expires_at: Option<Time>) -> Result<NewToken, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let text = token_text(role, random);
        let stored = Token::new(Token::digest_of(text.as_bytes()), created_at, expires_at);
        Ok(NewToken { text, stored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let now = Time::from_seconds(0);
        let [one, two] = [(); 2].map(|()| NewToken::generate(Role::Admin, now, None).unwrap());
        assert_ne!(one.text, two.text);
        assert_eq!(one.stored.digest, Token::digest_of(one.text.as_bytes()));
        assert!(!format!("{one:?}").contains(&one.text));
    }
}
