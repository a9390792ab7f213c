//! Schemas of records: the components of the description of the API, and the names of fields.
//!
//! utoipa derives a schema from each type. Here the schemas get the form that they have in
//! the description: one object for a record that flattens others, and no `null` for fields
//! that are absent instead.

use std::borrow::Cow;
use std::mem;

use indexmap::IndexMap;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Object, Schema, SchemaType, Type};

/// Marks the field of a record behind which the fields of flattened records follow. Without
/// a mark they come first.
const FLATTENED: &str = "x-flattened";
/// The fields of a record that are always present unless `fields` selects others.
const ALWAYS: &str = "x-always";

/// Schemas by the names that the description has for them.
pub(crate) type Schemas = IndexMap<String, RefOr<Schema>>;

/// The schema of a type.
#[derive(Clone, Copy)]
pub(crate) struct TypeSchema {
    name: fn() -> Cow<'static, str>,
    own: fn() -> RefOr<Schema>,
    others: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl TypeSchema {
    pub(crate) const fn new<T: ToSchema>() -> Self {
        Self {
            name: T::name,
            own: T::schema,
            others: T::schemas,
        }
    }

    /// The name of its component.
    pub(crate) fn name(self) -> Cow<'static, str> {
        (self.name)()
    }

    /// Adds it, and all schemas that it refers to.
    pub(crate) fn add_to(self, schemas: &mut Schemas) {
        schemas.insert(self.name().into_owned(), (self.own)());
        let mut others = Vec::new();
        (self.others)(&mut others);
        for (name, schema) in others {
            schemas.entry(name).or_insert(schema);
        }
    }

    /// The fields of a record in their order.
    pub(crate) fn fields(self) -> Vec<String> {
        let mut schemas = Schemas::new();
        self.add_to(&mut schemas);
        let own = schemas.get(&*self.name());
        let object = own.and_then(|own| joined(own, &schemas));
        object.map_or_else(Vec::new, |object| object.properties.into_keys().collect())
    }
}

/// The schemas as components. `selectable` are the names of records whose fields clients
/// select.
pub(crate) fn components(schemas: &Schemas, selectable: &[Cow<'static, str>]) -> Schemas {
    let components = schemas.iter().map(|(name, schema)| {
        let mut schema = match schema {
            RefOr::T(Schema::AllOf(_)) => match joined(schema, schemas) {
                Some(object) => RefOr::T(Schema::Object(object)),
                None => schema.clone(),
            },
            _ => schema.clone(),
        };
        tidy(&mut schema);
        if let RefOr::T(Schema::Object(object)) = &mut schema
            && selectable.contains(&Cow::Borrowed(name))
        {
            make_selectable(object);
        }
        (name.clone(), schema)
    });
    let mut components: Schemas = components.collect();
    components.sort_unstable_keys();
    components
}

/// The schema as one object, with the fields of the records that it flattens.
fn joined(schema: &RefOr<Schema>, schemas: &Schemas) -> Option<Object> {
    match schema {
        RefOr::Ref(reference) => {
            let (_, name) = reference.ref_location.rsplit_once('/')?;
            joined(schemas.get(name)?, schemas)
        }
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        // A flattened record that may be absent.
        RefOr::T(Schema::OneOf(one_of)) => {
            let mut parts = one_of.items.iter().filter(|part| !is_null(part));
            let mut object = joined(parts.next()?, schemas)?;
            object.required.clear();
            Some(object)
        }
        RefOr::T(Schema::AllOf(all_of)) => {
            let is_own = |part: &&RefOr<Schema>| matches!(part, RefOr::T(Schema::Object(_)));
            let own = all_of.items.iter().find(is_own);
            let mut object = own.and_then(|own| joined(own, schemas)).unwrap_or_default();
            object.description.clone_from(&all_of.description);
            let mut properties = mem::take(&mut object.properties).into_iter().peekable();
            let has_mark = |(_, property): &(String, RefOr<Schema>)| is_marked(property);
            let mut first = Vec::new();
            let own: Vec<_> = properties.by_ref().collect();
            let behind = own.iter().position(has_mark).map_or(0, |at| at + 1);
            let mut own = own.into_iter();
            first.extend(own.by_ref().take(behind));
            object.properties.extend(first);
            for part in all_of.items.iter().filter(|part| !is_own(part)) {
                let part = joined(part, schemas)?;
                object.properties.extend(part.properties);
                object.required.extend(part.required);
            }
            object.properties.extend(own);
            // In the order of the fields.
            let required = mem::take(&mut object.required);
            let names = object.properties.keys();
            object.required = names
                .filter(|name| required.contains(name))
                .cloned()
                .collect();
            Some(object)
        }
        RefOr::T(_) => None,
    }
}

fn is_marked(property: &RefOr<Schema>) -> bool {
    let extensions = match property {
        RefOr::T(Schema::Object(object)) => object.extensions.as_ref(),
        _ => None,
    };
    extensions.is_some_and(|extensions| extensions.contains_key(FLATTENED))
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    let RefOr::T(Schema::Object(object)) = schema else {
        return false;
    };
    matches!(object.schema_type, SchemaType::Type(Type::Null))
}

/// Removes what clients do not need: defaults, formats of integers, types of names, and
/// `null` for fields that are absent instead.
fn tidy(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else {
        return;
    };
    match schema {
        Schema::Array(array) => {
            array.default = None;
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                tidy(items);
            }
        }
        Schema::Object(object) => tidy_object(object),
        Schema::OneOf(one_of) => one_of.items.iter_mut().for_each(tidy),
        Schema::AllOf(all_of) => all_of.items.iter_mut().for_each(tidy),
        Schema::AnyOf(any_of) => any_of.items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn tidy_object(object: &mut Object) {
    object.default = None;
    object.property_names = None;
    if !matches!(object.schema_type, SchemaType::Type(Type::String)) {
        object.format = None;
    }
    if let Some(extensions) = &mut object.extensions {
        extensions.remove(FLATTENED);
    }
    let required = &object.required;
    for (name, property) in &mut object.properties {
        tidy(property);
        if let RefOr::Ref(reference) = property {
            reference.default = None;
        }
        if !required.contains(name) {
            remove_null(property);
        }
    }
    if let Some(AdditionalProperties::RefOr(values)) = object.additional_properties.as_deref_mut() {
        tidy(values);
    }
}

/// The schema of a field that is absent instead of `null`.
pub(crate) fn remove_null(property: &mut RefOr<Schema>) {
    match property {
        RefOr::T(Schema::Object(object)) => remove_null_type(&mut object.schema_type),
        RefOr::T(Schema::Array(array)) => remove_null_type(&mut array.schema_type),
        RefOr::T(Schema::OneOf(one_of)) => {
            one_of.items.retain(|part| !is_null(part));
            if one_of.items.len() == 1 {
                *property = one_of.items.remove(0);
            }
        }
        _ => {}
    }
}

fn remove_null_type(kind: &mut SchemaType) {
    if let SchemaType::Array(kinds) = kind {
        kinds.retain(|kind| *kind != Type::Null);
        if kinds.len() == 1 {
            *kind = SchemaType::Type(kinds.remove(0));
        }
    }
}

/// States which fields are always present, since with `fields` none is required.
fn make_selectable(object: &mut Object) {
    let always = mem::take(&mut object.required);
    if always.is_empty() {
        return;
    }
    let sentence = format!(
        "Without `fields`, these are always present: {}.",
        always.join(", ")
    );
    object.description = Some(match object.description.take() {
        Some(description) => format!("{description} {sentence}"),
        None => sentence,
    });
    let extensions = object.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(ALWAYS.to_owned(), always.into());
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use utoipa::ToSchema;

    use super::*;

    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "camelCase")]
    struct Part {
        first_part: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        second_part: Option<u64>,
    }

    #[derive(Serialize, ToSchema)]
    struct Whole {
        #[schema(extensions(("x-flattened" = json!(true))))]
        catalog: String,
        #[serde(flatten)]
        part: Part,
        #[schema(required = true)]
        last: Option<String>,
    }

    #[test]
    fn fields_have_the_order_of_the_json() {
        let whole = Whole {
            catalog: "a".to_owned(),
            part: Part {
                first_part: "b".to_owned(),
                second_part: Some(1),
            },
            last: None,
        };
        let json = serde_json::to_string(&whole).unwrap();
        let places = TypeSchema::new::<Whole>().fields();
        let places = places.iter().map(|name| json.find(&format!("\"{name}\":")));
        let places: Vec<usize> = places.collect::<Option<_>>().unwrap();
        assert_eq!(places.len(), 4, "{json}");
        assert!(places.is_sorted(), "{json}");
    }

    #[test]
    fn a_component_is_one_object_whose_fields_may_be_selected() {
        let mut schemas = Schemas::new();
        TypeSchema::new::<Whole>().add_to(&mut schemas);
        let components = components(&schemas, &["Whole".into()]);
        let whole = serde_json::to_value(&components["Whole"]).unwrap();
        assert_eq!(
            whole,
            serde_json::json!({
                "type": "object",
                "description": "Without `fields`, these are always present: catalog, firstPart, last.",
                "properties": {
                    "catalog": {"type": "string"},
                    "firstPart": {"type": "string"},
                    "secondPart": {"type": "integer", "minimum": 0},
                    "last": {"type": ["string", "null"]},
                },
                "x-always": ["catalog", "firstPart", "last"],
            })
        );
    }
}
