//! A macro with the methods that a wrapper of one of DataFusion's aggregates forwards to the
//! aggregate inside, unchanged.

/// Belongs into the `impl AggregateUDFImpl` of a wrapper whose field `inner` is the aggregate,
/// ahead of the methods that the wrapper overrides.
#[macro_export]
macro_rules! hands_on_to_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn return_type(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.inner.return_type(arg_types)
        }

        fn state_fields(
            &self,
            args: datafusion::logical_expr::function::StateFieldsArgs,
        ) -> datafusion::common::Result<Vec<arrow::datatypes::FieldRef>> {
            self.inner.state_fields(args)
        }

        fn groups_accumulator_supported(
            &self,
            args: datafusion::logical_expr::function::AccumulatorArgs,
        ) -> bool {
            self.inner.groups_accumulator_supported(args)
        }
    };
}
