// Each column has its own spool; the state of a part lists their states and shapes.
#include "stoker/pack/table_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

using Json = TableFields::Json;

std::uint64_t extend(std::uint64_t hash, std::uint64_t other) {
    const std::uint64_t both[] = {hash, other};
    return hash_bytes(std::as_bytes(std::span(both)));
}

// The state of column `at`. A part without it belongs to another version.
const Json& column_state(const Json& state, std::size_t at) {
    if (!state.is_array() || at >= state.size() || !state[at].contains("spool") || !state[at].contains("shape")) {
        throw DataError({}, {.where = "pack", .expected = "the state of each field", .got = "none"});
    }
    return state[at];
}

std::optional<StoredArray> array_of(const Json& shape, const Field& field) {
    if (!shape.is_array()) {
        return std::nullopt;
    }
    StoredArray array{.dtype = field.dtype, .shape = {}};
    for (const Json& side : shape) {
        if (!side.is_number_integer()) {
            throw DataError({}, {.where = "pack", .expected = "the shape of a field", .got = "another value"});
        }
        array.shape.push_back(side.get<std::int64_t>());
    }
    return array;
}

bool same(const std::optional<StoredArray>& one, const std::optional<StoredArray>& other) {
    return one.has_value() == other.has_value() && (!one || one->shape == other->shape);
}

}  // namespace

TableFields::TableFields(std::span<const Field> fields, const std::filesystem::path& folder, bool bytes,
                         const std::string& where) {
    refuse_bfloat16(fields, where);
    for (const Field& field : fields) {
        const bool is_bytes = field.kind == FieldKind::bytes;
        const bool ragged = !has_pixels(field.kind) && !is_bytes && (field.any_length() || field.item_bytes() == 0);
        if (ragged || (is_bytes && !bytes)) {
            throw InvalidArgument({.where = where,
                                   .expected = "fields of one shape, of at least one element",
                                   .got = fmt::format("{} of any length", field.name),
                                   .hint = "x.stk, x.tar and x.lmdb hold fields of any length"});
        }
        columns_.push_back({.field = field, .spool = SampleSpool(folder, fmt::format("field{}-", columns_.size()))});
    }
}

std::optional<std::size_t> TableFields::misfit(std::span<const StkValue> values, bool any, bool encoded) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const std::optional<StoredArray> array = stored_array(values[i]);
        if ((any && !same(array, columns_[i].array)) || (!array && !encoded)) {
            return i;
        }
    }
    return std::nullopt;
}

void TableFields::resume(const Json* state) {
    any_ = state != nullptr;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const Json* own = state == nullptr ? nullptr : &column_state(*state, i);
        columns_[i].spool.resume(own == nullptr ? nullptr : &own->at("spool"));
        columns_[i].array = own == nullptr ? std::nullopt : array_of(own->at("shape"), columns_[i].field);
    }
}

void TableFields::add(std::span<const StkValue> values) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (!any_) {
            columns_[i].array = stored_array(values[i]);
        }
        columns_[i].spool.add("", 0, value_bytes(values[i]));
    }
    any_ = true;
}

Json TableFields::save(std::uint64_t& hash) {
    Json state = Json::array();
    for (Column& column : columns_) {
        std::uint64_t own = 0;
        Json spool = column.spool.save(own);
        hash = extend(hash, own);
        state.push_back({{"spool", std::move(spool)}, {"shape", column.array ? Json(column.array->shape) : Json()}});
    }
    return state;
}

std::uint64_t TableFields::read_hash(const Json* before, const Json& state, std::uint64_t hash) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const Json* begin = before == nullptr ? nullptr : &column_state(*before, i).at("spool");
        hash = extend(hash, columns_[i].spool.read_hash(begin, column_state(state, i).at("spool")));
    }
    return hash;
}

void TableFields::read(std::size_t at, std::int64_t count, const std::function<void(const SpoolBatch&)>& take) const {
    columns_[at].spool.read(count, true, take);
}

std::string stored_text(const std::optional<StoredArray>& array) {
    return array ? fmt::format("{} of ({})", dtype_name(array->dtype), fmt::join(array->shape, ", ")) : "encoded bytes";
}

}  // namespace stoker
