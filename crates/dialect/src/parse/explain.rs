//! `EXPLAIN (FORMAT …)`: PostgreSQL's names of the forms that plans are shown in.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a statement with formats that the parser knows.
pub(super) fn known_formats(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let spoken: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let keyword = |tokens: &[TokenWithSpan], at: usize| match &tokens[at].token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    };
    let [explain, open, options @ ..] = spoken.as_slice() else { return tokens };
    if keyword(&tokens, *explain) != Some(Keyword::EXPLAIN) || tokens[*open].token != Token::LParen
    {
        return tokens;
    }
    for pair in options.windows(2) {
        if tokens[pair[0]].token == Token::RParen {
            break;
        }
        if keyword(&tokens, pair[0]) == Some(Keyword::FORMAT)
            && let Token::Word(format) = &tokens[pair[1]].token
        {
            let known = match format.value.to_ascii_lowercase().as_str() {
                "text" => "indent",
                "json" => "pgjson",
                _ => break,
            };
            tokens[pair[1]].token = Token::make_word(known, None);
        }
    }
    tokens
}
