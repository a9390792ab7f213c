//! Catalog ─► answers and index: the stage `build`.

use crate::answers::catalog::{AnswerInput, EncodedCatalog};
use crate::answers::grpc;
use crate::answers::index::{Index, SearchRow};
use crate::answers::rest::packages;
use crate::answers::rest::packages::Queries;
use crate::ingest::error::Cause;
use crate::name::CatalogName;
use crate::store::{Lines, Output, RevisionWriter};
use fbc::document::OLM_SCHEMAS;

/// Writes the answers of the registry API and those of queries over HTTP, each on
/// a thread of its own. Returns the index without its metas, which the writer
/// adds, and the searched texts.
pub(crate) fn write_answers(
    name: &CatalogName,
    catalog: &EncodedCatalog,
    writer: &mut RevisionWriter,
) -> Result<(Index, Vec<SearchRow>), Cause> {
    let (lines, messages) = (writer.lines()?, writer.messages()?);
    let custom = writer.metas_but_of(&OLM_SCHEMAS);
    let lines = |meta| Lines::get(&lines, meta);
    let input = AnswerInput {
        catalog,
        lines: &lines,
        messages: &messages,
    };
    let output = writer.queries();
    std::thread::scope(|scope| {
        let queries = scope.spawn(|| write_queries(name, &input, output));
        let mut store = |bytes: &[u8]| writer.append_messages(bytes);
        let index = grpc::build::build(&input, &custom, &mut store);
        let queries = queries
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let index = Index {
            queries: queries.index,
            ..index?
        };
        Ok((index, queries.search))
    })
}

fn write_queries(
    name: &CatalogName,
    input: &AnswerInput<'_>,
    mut output: Output,
) -> Result<Queries, Cause> {
    let mut store = |bytes: &[u8]| output.append(bytes).map_err(Cause::from);
    let queries = packages::build(name.as_str(), input, &mut store)?;
    output.sync()?;
    Ok(queries)
}
