//! `current_user` and `session_user`.
//!
//! They become literals when a statement is planned: when its rows are produced, its planner may
//! serve another session.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::catalog::SessionCatalog;

/// The functions that return a session's user.
pub(crate) fn functions(names: &Arc<SessionCatalog>) -> [ScalarUDF; 2] {
    let function = |name, session, aliases: &[&str]| {
        ScalarUDF::from(CurrentUser {
            name,
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            session,
            names: Arc::clone(names),
            // Known when the statement is planned, and the same for all of it.
            signature: Signature::nullary(Volatility::Stable),
        })
    };
    [
        function("current_user", false, &["user", "current_role"]),
        function("session_user", true, &[]),
    ]
}

struct CurrentUser {
    name: &'static str,
    aliases: Vec<String>,
    /// True for the session's user, false for the current one.
    session: bool,
    names: Arc<SessionCatalog>,
    signature: Signature,
}

impl fmt::Debug for CurrentUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for CurrentUser {
    fn eq(&self, other: &CurrentUser) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.names, &other.names)
    }
}

impl Eq for CurrentUser {}

impl Hash for CurrentUser {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CurrentUser {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn simplify(&self, _: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let identity = self.names.identity();
        let role = if self.session { identity.session } else { identity.current };
        let name = self.names.catalog().roles().get(role).map(|role| role.name.clone());
        let name = ScalarValue::Utf8View(name);
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(name, None)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} is known when the statement is planned", self.name)
    }
}
