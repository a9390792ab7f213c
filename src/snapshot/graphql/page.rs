//! Pages of the blobs of a schema: `limit` and `offset` as catalogd has them, and
//! the filters `package`, `name` and `where`.

use async_graphql::Value;
use async_graphql::dynamic::{
    Field, FieldValue, InputObject, InputValue, ObjectAccessor, ResolverContext, TypeRef,
};
use bytes::Bytes;

use crate::answers::graphql::{FieldType, NamedField};
use crate::snapshot::Snapshot;
use crate::snapshot::graphql::blob;
use crate::snapshot::graphql::blob::{MAX_LIST, Object};
use crate::snapshot::graphql::effort::{Cut, Effort};
use crate::snapshot::graphql::resolve::{answer, snapshot};
use fbc::fields::{Leaf, Scalar};

/// The most blobs of one page, and the default.
const PAGE: usize = 100;
/// The largest blob, in bytes.
const MAX_BLOB: usize = 16 << 20;

/// The fields of blobs of a schema that `where` may name.
pub(super) struct Conditions {
    /// The name of the input type. Names of other types have no underscore.
    type_name: String,
    fields: Vec<(String, Vec<Box<str>>, Leaf)>,
}

/// A condition of `where`.
struct Condition<'a> {
    keys: &'a [Box<str>],
    kind: Leaf,
    wanted: &'a Value,
}

impl Conditions {
    /// The conditions for blobs of the type `name` with these fields.
    pub(super) fn of(name: &str, fields: &[NamedField<FieldType>]) -> Self {
        let leaves = fields.iter().filter_map(|field| match field.kind {
            FieldType::Leaf(kind) => Some((field.name.clone(), field.keys.clone(), kind)),
            FieldType::Objects { .. } => None,
        });
        Self {
            type_name: format!("{name}_Where"),
            fields: leaves.collect(),
        }
    }

    /// The input type, if there is any field.
    pub(super) fn input(&self, schema: &str) -> Option<InputObject> {
        let (first, others) = self.fields.split_first()?;
        let description = format!(
            "Values that the fields of a blob of {schema} must have; a list must contain the \
             value, and null stands for an absent field"
        );
        let input = InputObject::new(&self.type_name).description(description);
        let field = |(name, _, kind): &(String, _, Leaf)| {
            let scalar = match kind.scalar {
                Scalar::String => TypeRef::STRING,
                Scalar::Boolean => TypeRef::BOOLEAN,
                Scalar::Int => TypeRef::INT,
                Scalar::Float => TypeRef::FLOAT,
            };
            InputValue::new(name, TypeRef::named(scalar))
        };
        let input = input.field(field(first));
        Some(
            others
                .iter()
                .fold(input, |input, one| input.field(field(one))),
        )
    }

    /// The conditions that a query names.
    fn read<'a>(&'a self, given: &'a ObjectAccessor<'a>) -> Result<Vec<Condition<'a>>, String> {
        let conditions = given.iter().map(|(name, value)| {
            let known = self
                .fields
                .iter()
                .find(|(field, ..)| field == name.as_str());
            let (_, keys, kind) =
                known.ok_or_else(|| format!("{} has no field {name:?}", self.type_name))?;
            let wanted = value.as_value();
            let fits = match (kind.scalar, wanted) {
                (_, Value::Null) => true,
                (Scalar::String, value) => matches!(value, Value::String(_)),
                (Scalar::Boolean, value) => matches!(value, Value::Boolean(_)),
                (Scalar::Int | Scalar::Float, value) => matches!(value, Value::Number(_)),
            };
            if !fits {
                return Err(format!("the value of {name:?} in where is of another type"));
            }
            Ok(Condition {
                keys,
                kind: *kind,
                wanted,
            })
        });
        conditions.collect()
    }
}

impl Condition<'_> {
    fn holds(&self, blob: &Object) -> bool {
        let json = blob.get(self.keys).unwrap_or_default();
        if self.kind.list {
            return match blob::list(&json, MAX_LIST) {
                Ok(Some(elements)) => elements.iter().any(|element| self.equals(element)),
                Ok(None) => *self.wanted == Value::Null,
                // A longer list matches nothing, as it is not read.
                Err(_) => false,
            };
        }
        self.equals(&json)
    }

    fn equals(&self, json: &Bytes) -> bool {
        match (blob::scalar(json, self.kind.scalar), self.wanted) {
            // 3 and 3.0 are one number.
            (Value::Number(found), Value::Number(wanted)) => found.as_f64() == wanted.as_f64(),
            (found, wanted) => found == *wanted,
        }
    }
}

/// A field of the query: the blobs of a schema, some at a time.
pub(super) fn page(field: String, ty: &str, schema: Box<str>, conditions: Conditions) -> Field {
    let description = format!("Blobs of {schema}, in the order of the catalog");
    let number = |name: &str, default: usize, description: &str| {
        InputValue::new(name, TypeRef::named(TypeRef::INT))
            .default_value(default as u64)
            .description(description)
    };
    let text = |name: &str, description: &str| {
        InputValue::new(name, TypeRef::named(TypeRef::STRING)).description(description)
    };
    let filter = (!conditions.fields.is_empty()).then(|| {
        InputValue::new("where", TypeRef::named(&conditions.type_name))
            .description("Only blobs whose fields have these values")
    });
    let field = Field::new(field, TypeRef::named_list(ty), move |ctx| {
        answer(&ctx, |ctx, effort| {
            select(ctx, effort, &schema, &conditions)
        })
    })
    .argument(number("limit", PAGE, "Maximum number of items to return"))
    .argument(number("offset", 0, "Number of items to skip"))
    .argument(text(
        "package",
        "Only blobs with this package; blobs of olm.package have a name instead",
    ))
    .argument(text("name", "Only blobs with this name"))
    .description(description);
    match filter {
        Some(filter) => field.argument(filter),
        None => field,
    }
}

/// The blobs of a page.
fn select<'a>(
    ctx: &ResolverContext<'a>,
    effort: &Effort,
    schema: &str,
    conditions: &Conditions,
) -> Result<Option<FieldValue<'a>>, String> {
    let snapshot = snapshot(ctx)?;
    // An absent argument has its default value.
    let is_given = ctx.item.node.get_argument("limit").is_some();
    let requested = number(ctx, "limit")?.filter(|_| is_given);
    let limit = requested.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| (1..=PAGE).contains(limit));
    let applied = limit.unwrap_or(PAGE);
    let offset = number(ctx, "offset")?.and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.unwrap_or(0);
    let (package, name) = (text(ctx, "package")?, text(ctx, "name")?);
    let given = match ctx.args.get("where").filter(|value| !value.is_null()) {
        Some(given) => Some(given.object().map_err(|error| error.message)?),
        None => None,
    };
    let conditions = match &given {
        Some(given) => conditions.read(given)?,
        None => Vec::new(),
    };
    let lookup = &snapshot.meta_lookup;
    let of_package = package.map(|package| &lookup.package(package).metas);
    let named = name.map(|name| lookup.name(&snapshot.index, name));
    // The shortest list is gone through, and looked up in the others.
    let mut lists: Vec<&[u32]> = vec![&lookup.schema(schema).metas];
    lists.extend(of_package.map(Vec::as_slice));
    lists.extend(named);
    lists.sort_by_key(|list| list.len());
    let (shortest, others) = lists.split_first().ok_or("nothing is selected")?;

    let mut blobs = Vec::new();
    let (mut skipped, mut more) = (0, false);
    let in_all = |meta: &&u32| others.iter().all(|list| list.binary_search(meta).is_ok());
    let mut metas = shortest.iter().filter(in_all);
    if conditions.is_empty() && others.is_empty() {
        // Nothing has to be looked at before the page.
        skipped = offset;
        metas = shortest
            .get(offset..)
            .unwrap_or_default()
            .iter()
            .filter(in_all);
    }
    for meta in metas {
        effort.time().map_err(|limit| limit.to_string())?;
        let blob = Object::new(snapshot.line(*meta));
        if !conditions.iter().all(|condition| condition.holds(&blob)) {
            continue;
        }
        if skipped < offset {
            skipped += 1;
            continue;
        }
        if blobs.len() == applied {
            more = true;
            break;
        }
        checked(snapshot, *meta, schema)?;
        effort.value().map_err(|limit| limit.to_string())?;
        blobs.push(FieldValue::owned_any(blob));
    }
    let refused = requested.filter(|_| limit.is_none());
    if refused.is_some() || (requested.is_none() && more) {
        effort.cut(cut(ctx, refused, offset, blobs.len(), more));
    }
    Ok(Some(FieldValue::list(blobs)))
}

/// The error for a page whose limit is not that of the query.
fn cut(
    ctx: &ResolverContext<'_>,
    requested: Option<i64>,
    offset: usize,
    returned: usize,
    more: bool,
) -> Cut {
    let next_offset = more.then_some(offset + returned);
    let mut message = format!("limit is from 1 to {PAGE}");
    match next_offset {
        Some(next) => {
            let rest = format!("; more items follow: ask again with offset: {next}");
            message.push_str(&rest);
        }
        None => message.push_str("; no more items follow"),
    }
    Cut {
        path: ctx.item.node.response_key().node.to_string(),
        requested,
        limit: PAGE,
        returned,
        next_offset,
        message,
    }
}

/// Fails for a blob that is too large to read.
fn checked(snapshot: &Snapshot, meta: u32, schema: &str) -> Result<(), String> {
    let found = snapshot.index.metas.get(meta as usize);
    let Some(large) = found.filter(|meta| meta.length as usize > MAX_BLOB) else {
        return Ok(());
    };
    Err(format!(
        "the blob {:?} of {schema:?} is larger than {} MiB: ask for it over metas",
        large.name,
        MAX_BLOB >> 20
    ))
}

/// A numeric argument.
fn number(ctx: &ResolverContext<'_>, name: &str) -> Result<Option<i64>, String> {
    let Some(value) = ctx.args.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    match value.i64().map(i32::try_from) {
        Ok(Ok(number)) => Ok(Some(number.into())),
        _ => Err(format!("the argument {name:?} must be a number of 32 bits")),
    }
}

/// An argument with a text.
fn text<'a>(ctx: &'a ResolverContext<'_>, name: &str) -> Result<Option<&'a str>, String> {
    let Some(value) = ctx.args.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let text = value.string();
    Ok(Some(text.map_err(|error| error.message)?))
}
