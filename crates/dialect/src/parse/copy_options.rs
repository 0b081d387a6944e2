//! The spellings of truth values in the options of `COPY`: the parser knows `TRUE` and `FALSE`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token_steps::is_one_of;

/// The tokens with `TRUE` or `FALSE` behind `FREEZE` and `HEADER` instead of another spelling.
pub(super) fn spelled_out(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    for at in options(&tokens)..tokens.len() {
        if !is_one_of(&tokens[at], &[Keyword::FREEZE, Keyword::HEADER]) {
            continue;
        }
        let next = (at + 1..tokens.len()).find(|next| !is_blank(&tokens[*next]));
        let Some(next) = next else { continue };
        let written = match &tokens[next].token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            Token::SingleQuotedString(text) => text.to_ascii_lowercase(),
            Token::Number(digits, false) => digits.clone(),
            _ => continue,
        };
        tokens[next].token = match written.as_str() {
            "on" | "1" | "true" => Token::make_keyword("TRUE"),
            "off" | "0" | "false" => Token::make_keyword("FALSE"),
            _ => continue,
        };
    }
    tokens
}

/// The place behind the `FROM` or `TO` of the statement. A query may use the words as names before.
fn options(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_one_of(token, &[Keyword::FROM, Keyword::TO]) => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn a_query_keeps_its_names() {
        let written = "COPY (SELECT 1 FROM a JOIN header ON true) TO STDOUT";
        assert_eq!(parse_single(written).unwrap().statement.to_string(), written);
    }

    #[test]
    fn truth_values_have_all_spellings() {
        for (written, read) in [
            ("(freeze on)", "(FREEZE TRUE)"),
            ("(FREEZE 1, HEADER off)", "(FREEZE TRUE, HEADER FALSE)"),
            ("(header 'false')", "(HEADER FALSE)"),
            ("(freeze)", "(FREEZE TRUE)"),
        ] {
            let parsed = parse_single(&format!("COPY t FROM STDIN WITH {written}")).unwrap();
            let text = parsed.statement.to_string().to_uppercase();
            let read = read.replace(" TRUE", "");
            let text = text.replace(" TRUE", "");
            assert!(text.ends_with(&read), "{written} is read as {text}");
        }
    }
}
