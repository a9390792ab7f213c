//! The fields of blobs ─► a GraphQL schema whose fields know where to look.

use async_graphql::Value;
use async_graphql::dynamic::{
    Field, FieldFuture, FieldValue, Object as ObjectType, ResolverContext, Schema, TypeRef,
};
use bytes::Bytes;

use crate::answers::graphql::{
    BlobType, FieldType, NamedField, QUERY, SCHEMA_SUMMARY, SUMMARY, SUMMARY_FIELD, field_name,
    types,
};
use crate::snapshot::Snapshot;
use crate::snapshot::graphql::blob;
use crate::snapshot::graphql::blob::{MAX_LIST, Object, TooMany};
use crate::snapshot::graphql::effort::{Count, Effort};
use crate::snapshot::graphql::page::{Conditions, page};
use crate::snapshot::graphql::resolve::{answer, snapshot};
use crate::snapshot::graphql::schema_error::{GraphqlSchema, SchemaError};
use fbc::fields::{Leaf, Scalar};
use fbc::text::json::unescape;

/// The deepest nesting of a query. The HTTP side has a limit of its own, with a
/// better message.
const MAX_DEPTH: usize = 64;
/// The most directives of a field.
const MAX_DIRECTIVES: usize = 16;

/// Makes the schema of a snapshot.
pub(super) fn build(snapshot: &Snapshot) -> GraphqlSchema {
    let mut query = ObjectType::new(QUERY).field(
        Field::new(SUMMARY_FIELD, TypeRef::named(SUMMARY), |_| {
            FieldFuture::Value(Some(FieldValue::owned_any(())))
        })
        .description("How much the catalog holds"),
    );
    let mut schema = Schema::build(QUERY, None, None)
        .limit_recursive_depth(MAX_DEPTH)
        .limit_directives(MAX_DIRECTIVES)
        .extension(Count)
        .register(summary())
        .register(schema_summary());
    for BlobType {
        schema: blobs,
        query: field,
        name,
        fields,
    } in types(&snapshot.index.fields)
    {
        let conditions = Conditions::of(&name, &fields);
        let mut of_blob = ObjectType::new(&name).description(format!("A blob of {blobs}"));
        for NamedField { name, keys, kind } in fields {
            of_blob = of_blob.field(match kind {
                FieldType::Leaf(kind) => leaf(name, keys, kind),
                FieldType::Objects {
                    name: of_objects,
                    fields,
                } => {
                    let ty = fields.into_iter().fold(
                        ObjectType::new(&of_objects)
                            .description(format!("An object in {name} of a blob of {blobs}")),
                        |ty, field| ty.field(leaf(field.name, field.keys, field.kind)),
                    );
                    schema = schema.register(ty);
                    objects(name, keys, of_objects)
                }
            });
        }
        schema = schema.register(of_blob);
        if let Some(input) = conditions.input(&blobs) {
            schema = schema.register(input);
        }
        query = query.field(page(field, &name, blobs, conditions));
    }
    schema
        .register(query)
        .finish()
        .map_err(|error| SchemaError(error.to_string()))
}

/// A field with a scalar or a list of scalars.
fn leaf(name: String, keys: Vec<Box<str>>, kind: Leaf) -> Field {
    let scalar = match kind.scalar {
        Scalar::String => TypeRef::STRING,
        Scalar::Boolean => TypeRef::BOOLEAN,
        Scalar::Int => TypeRef::INT,
        Scalar::Float => TypeRef::FLOAT,
    };
    let description = keys_shown(&name, &keys);
    let field = if kind.list {
        Field::new(name, TypeRef::named_list(scalar), move |ctx| {
            answer(&ctx, |ctx, effort| {
                let Some(elements) = elements(ctx, &keys)? else {
                    return Ok(None);
                };
                let values = elements
                    .iter()
                    .map(|element| counted(blob::scalar(element, kind.scalar), effort))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Some(FieldValue::list(values)))
            })
        })
    } else {
        Field::new(name, TypeRef::named(scalar), move |ctx| {
            answer(&ctx, |ctx, effort| {
                value(ctx, &keys)?
                    .map(|json| counted(blob::scalar(&json, kind.scalar), effort))
                    .transpose()
            })
        })
    };
    described(field, description)
}

/// A field of a blob with a list of objects.
fn objects(name: String, keys: Vec<Box<str>>, ty: String) -> Field {
    let description = keys_shown(&name, &keys);
    let field = Field::new(name, TypeRef::named_list(ty), move |ctx| {
        answer(&ctx, |ctx, _| {
            let objects = elements(ctx, &keys)?.map(|elements| {
                FieldValue::list(elements.into_iter().map(|element| {
                    // The executor makes an object of each element, even of
                    // null, which then has no fields.
                    FieldValue::owned_any(Object::new(element))
                }))
            });
            Ok(objects)
        })
    });
    described(field, description)
}

/// A field with its description, if it has one.
fn described(field: Field, description: Option<String>) -> Field {
    match description {
        Some(description) => field.description(description),
        None => field,
    }
}

/// The keys of a field, if they differ from its name.
fn keys_shown(name: &str, keys: &[Box<str>]) -> Option<String> {
    let keys: Vec<String> = keys
        .iter()
        .map(|key| format!("{:?}", unescape(key.as_bytes())))
        .collect();
    if let [only] = &keys[..]
        && only.trim_matches('"') == name
    {
        return None;
    }
    Some(keys.join(", "))
}

/// The value of the parent object under a key.
fn value(ctx: &ResolverContext<'_>, keys: &[Box<str>]) -> Result<Option<Bytes>, String> {
    let object = ctx.parent_value.try_downcast_ref::<Object>();
    Ok(object.map_err(|error| error.message)?.get(keys))
}

/// The elements of that value.
fn elements(ctx: &ResolverContext<'_>, keys: &[Box<str>]) -> Result<Option<Vec<Bytes>>, String> {
    let Some(json) = value(ctx, keys)? else {
        return Ok(None);
    };
    blob::list(&json, MAX_LIST).map_err(|TooMany| {
        format!("the list has more than {MAX_LIST} items: ask for the blob over metas")
    })
}

fn counted<'a>(value: Value, effort: &Effort) -> Result<FieldValue<'a>, String> {
    effort
        .bytes(blob::size(&value))
        .map_err(|limit| limit.to_string())?;
    Ok(FieldValue::value(value))
}

fn summary() -> ObjectType {
    ObjectType::new(SUMMARY)
        .description("How much a catalog holds")
        .field(
            Field::new("totalSchemas", TypeRef::named(TypeRef::INT), |ctx| {
                answer(&ctx, |ctx, _| {
                    let snapshot = snapshot(ctx)?;
                    Ok(Some(FieldValue::value(snapshot.index.fields.len() as u64)))
                })
            })
            .description("How many schemas its blobs have"),
        )
        .field(
            Field::new("schemas", TypeRef::named_list(SCHEMA_SUMMARY), |ctx| {
                answer(&ctx, |ctx, _| {
                    let snapshot = snapshot(ctx)?;
                    Ok(Some(FieldValue::list(
                        (0..snapshot.index.fields.len()).map(FieldValue::owned_any),
                    )))
                })
            })
            .description("The schemas, in the order in which they come up in the catalog"),
        )
}

fn schema_summary() -> ObjectType {
    type Tell = fn(&Snapshot, usize) -> Option<Value>;
    let field = |name: &str, ty: &str, description: &str, tell: Tell| {
        Field::new(name, TypeRef::named(ty), move |ctx| {
            answer(&ctx, |ctx, _| {
                let snapshot = snapshot(ctx)?;
                let number = ctx.parent_value.try_downcast_ref::<usize>();
                let number = *number.map_err(|error| error.message)?;
                Ok(tell(snapshot, number).map(FieldValue::value))
            })
        })
        .description(description)
    };
    ObjectType::new(SCHEMA_SUMMARY)
        .description("How much there is of a schema")
        .field(field(
            "name",
            TypeRef::STRING,
            "The schema",
            |snapshot, number| {
                let schema = snapshot.index.fields.get(number)?;
                Some(Value::from(&*schema.schema))
            },
        ))
        .field(field(
            "totalObjects",
            TypeRef::INT,
            "How many blobs have it",
            |snapshot, number| {
                let schema = snapshot.index.fields.get(number)?;
                let blobs = &snapshot.meta_lookup.schema(&schema.schema).metas;
                Some(Value::from(blobs.len() as u64))
            },
        ))
        .field(field(
            "totalFields",
            TypeRef::INT,
            "How many fields they have",
            |snapshot, number| {
                let schema = snapshot.index.fields.get(number)?;
                let names: std::collections::HashSet<String> = schema
                    .fields
                    .iter()
                    .map(|field| field_name(&unescape(field.key.as_bytes())))
                    .collect();
                Some(Value::from(names.len() as u64))
            },
        ))
}
