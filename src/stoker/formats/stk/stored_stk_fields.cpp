// The fields of an stk data set other than its image and label, for `stoker inspect`.
#include "stoker/base/error.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/stk/stk.h"

namespace stoker {
namespace {

// Throws for tensors whose shapes differ beyond their first side: those cannot be fields.
Field field_of(const StkReader& reader, std::size_t column) {
    const StkField& stored = reader.schema().fields[column];
    Field field{.name = stored.name, .kind = FieldKind::value, .dtype = DType::int64};
    if (stored.kind == StkKind::image) {
        field.kind = guessed_image_kind(stored.name);
        field.dtype = DType::uint8;
        return field;
    }
    if (stored.kind == StkKind::bytes) {
        return {.name = stored.name, .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}};
    }
    if (stored.kind == StkKind::number) {
        field.dtype = DType::float64;
    } else if (stored.kind == StkKind::tensor) {
        field.dtype = stored.dtype;
        field.shape = reader.shards().front().tensor_shape(column, 0);
        for (const StkShard& shard : reader.shards()) {
            for (std::int64_t i = 0; i < shard.samples(); ++i) {
                merge_shape(field.shape, shard.tensor_shape(column, i), stored.name);
            }
        }
    }
    const FieldKind kind = guessed_kind(field.name, field.dtype, field.shape);
    field.kind = has_pixels(kind) ? FieldKind::value : kind;  // a tensor is never an image
    return field;
}

}  // namespace

std::vector<Field> StkDataset::stored_fields() const {
    std::vector<Field> fields;
    for (std::size_t column = 0; column < reader_.schema().fields.size(); ++column) {
        if (column == image_ || column == label_) {
            continue;
        }
        try {
            fields.push_back(field_of(reader_, column));
        } catch (const Unsupported&) {
        }
    }
    return fields;
}

}  // namespace stoker
