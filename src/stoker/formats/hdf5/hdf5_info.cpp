// The library's answers come from the file: offsets and sizes among them are checked where they are used
// (hdf5_bytes.h).
#include "stoker/formats/hdf5/hdf5_info.h"

#include <array>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr const char* kType = "the dataset's type";
constexpr const char* kLayout = "the dataset's layout";

const char* class_name(H5T_class_t type) {
    switch (type) {
        case H5T_OPAQUE:
            return "opaque bytes";
        case H5T_COMPOUND:
            return "compound";
        case H5T_ENUM:
            return "an enumeration";
        case H5T_ARRAY:
            return "arrays";
        case H5T_VLEN:
            return "variable-length sequences of elements other than uint8";
        case H5T_STRING:
            return "text";
        default:
            return "another type";
    }
}

// bfloat16 has other exponents than a half of 2 bytes; floats of 1 byte have no type of ours.
bool is_ieee(hid_t type, std::size_t size) {
    std::size_t sign = 0;
    std::size_t exponent = 0;
    std::size_t exponent_bits = 0;
    std::size_t mantissa = 0;
    std::size_t mantissa_bits = 0;
    const bool known = H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0;
    return known && exponent_bits == (size == 2 ? 5U : size == 4 ? 8U : size == 8 ? 11U : 0U);
}

// False for anything but integers and floats that use all bits of their bytes, and h5py's booleans, an enumeration of
// two bytes.
bool read_number(hid_t type, ArrayType& out) {
    const H5T_class_t kind = H5Tget_class(type);
    const std::size_t size = H5Tget_size(type);
    if (kind == H5T_ENUM && size == 1 && H5Tget_nmembers(type) == 2) {
        out = {.kind = ArrayKind::boolean};
        return true;
    }
    const bool usual = size == 1 || size == 2 || size == 4 || size == 8;
    if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || !usual || H5Tget_precision(type) != 8 * size ||
        (kind == H5T_FLOAT && !is_ieee(type, size))) {
        return false;
    }
    out.kind = kind == H5T_FLOAT                   ? ArrayKind::floating
               : H5Tget_sign(type) == H5T_SGN_NONE ? ArrayKind::unsigned_integer
                                                   : ArrayKind::signed_integer;
    out.item_size = static_cast<int>(size);
    out.big_endian = H5Tget_order(type) == H5T_ORDER_BE;
    return true;
}

void read_type(hid_t type, const Hdf5Bytes& file, Hdf5Info& info) {
    const H5T_class_t kind = check_hdf5(H5Tget_class(type), file.path(), kType);
    info.type_name = class_name(kind);
    info.item_size = H5Tget_size(type);
    if (read_number(type, info.type)) {
        info.kind = Hdf5Kind::number;
        info.type_name = array_type_name(info.type);
    } else if (kind == H5T_STRING) {
        info.kind = Hdf5Kind::text;
        info.sequences = check_hdf5(H5Tis_variable_str(type), file.path(), kType) > 0;
    } else if (kind == H5T_VLEN) {
        const Hdf5Id element(H5Tget_super(type), H5Tclose, file.path(), kType);
        ArrayType of;
        if (read_number(element.get(), of) && of.is_uint8()) {
            info.kind = Hdf5Kind::encoded;
            info.type_name = "variable-length uint8";
            info.sequences = true;
        }
    }
    if (info.sequences) {
        info.item_size =
            static_cast<std::size_t>(8 + file.superblock().address_bytes);  // length, heap address, object number
    }
}

Shape read_shape(hid_t dataset, const std::string& path) {
    const Hdf5Id space(H5Dget_space(dataset), H5Sclose, path, "the dataset's shape");
    const int rank = check_hdf5(H5Sget_simple_extent_ndims(space.get()), path, "the dataset's shape");
    std::array<hsize_t, H5S_MAX_RANK> sides{};
    check_hdf5(H5Sget_simple_extent_dims(space.get(), sides.data(), nullptr), path, "the dataset's shape");
    return {sides.begin(), sides.begin() + rank};
}

void read_filters(hid_t creation, const std::string& path, Hdf5Info& info) {
    const int count = check_hdf5(H5Pget_nfilters(creation), path, "the dataset's filters");
    for (int i = 0; i < count; ++i) {
        std::array<char, 64> name{};
        std::array<unsigned, 8> values{};
        std::size_t held = values.size();
        unsigned flags = 0;
        unsigned config = 0;
        const H5Z_filter_t id = check_hdf5(H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &held,
                                                          values.data(), name.size(), name.data(), &config),
                                           path, "the dataset's filters");
        name.back() = '\0';
        info.filters.push_back({.id = id, .name = name.data(), .first_value = values[0]});
    }
}

void read_chunk_shape(hid_t creation, const std::string& path, Hdf5Info& info) {
    std::array<hsize_t, H5S_MAX_RANK> sides{};
    const int rank = check_hdf5(H5Pget_chunk(creation, H5S_MAX_RANK, sides.data()), path, kLayout);
    info.chunk.assign(sides.begin(), sides.begin() + rank);
    unsigned options = 0;
    check_hdf5(H5Pget_chunk_opts(creation, &options), path, kLayout);
    info.unfiltered_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    bool sound = info.chunk.size() == info.shape.size();
    for (const std::int64_t side : info.chunk) {
        sound = sound && side >= 1;
    }
    if (!sound) {
        throw DataError({.path = path}, {.where = info.name,
                                         .expected = "chunks of as many dimensions as the dataset",
                                         .got = fmt::format("{} instead of {}", rank, info.shape.size())});
    }
}

void read_layout(hid_t dataset, hid_t creation, const std::string& path, Hdf5Info& info) {
    const H5D_layout_t layout = check_hdf5(H5Pget_layout(creation), path, kLayout);
    const bool elsewhere = H5Pget_external_count(creation) != 0;
    if (elsewhere || layout == H5D_VIRTUAL) {
        throw Unsupported({.where = path,
                           .expected = fmt::format("{} to lie within the file", info.name),
                           .got = elsewhere ? "a dataset in external files" : "a virtual dataset"});
    }
    if (layout == H5D_COMPACT) {
        info.layout = Hdf5Layout::compact;
    } else if (layout == H5D_CHUNKED) {
        info.layout = Hdf5Layout::chunked;
        read_chunk_shape(creation, path, info);
        read_filters(creation, path, info);
    } else {
        info.offset = H5Dget_offset(dataset);
        info.stored = info.offset != HADDR_UNDEF;
        H5Eclear2(H5E_DEFAULT);  // H5Dget_offset fails if nothing is stored
    }
}

void read_fill(hid_t creation, const std::string& path, Hdf5Info& info) {
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    check_hdf5(H5Pfill_value_defined(creation, &defined), path, "the dataset's fill value");
    if (info.kind == Hdf5Kind::number && info.type.is_uint8() && defined != H5D_FILL_VALUE_UNDEFINED) {
        check_hdf5(H5Pget_fill_value(creation, H5T_NATIVE_UINT8, &info.fill), path, "the dataset's fill value");
    } else if (info.kind == Hdf5Kind::number && defined == H5D_FILL_VALUE_USER_DEFINED) {
        double fill = 0;
        check_hdf5(H5Pget_fill_value(creation, H5T_NATIVE_DOUBLE, &fill), path, "the dataset's fill value");
        info.other_fill = fill != 0;
    }
}

}  // namespace

Hdf5Bytes::Superblock read_superblock(const Hdf5Id& file, const std::string& path) {
    constexpr const char* kSuperblock = "the file's superblock";
    const Hdf5Lock lock;
    const Hdf5Id creation(H5Fget_create_plist(file.get()), H5Pclose, path, kSuperblock);
    std::size_t address_bytes = 0;
    std::size_t length_bytes = 0;
    hsize_t base = 0;
    check_hdf5(H5Pget_sizes(creation.get(), &address_bytes, &length_bytes), path, kSuperblock);
    check_hdf5(H5Pget_userblock(creation.get(), &base), path, kSuperblock);
    const auto usual = [](std::size_t bytes) { return bytes == 2 || bytes == 4 || bytes == 8; };
    if (!usual(address_bytes) || !usual(length_bytes)) {
        throw Unsupported({.where = path,
                           .expected = "addresses and lengths of 2, 4 or 8 bytes",
                           .got = fmt::format("{} and {}", address_bytes, length_bytes)});
    }
    return {
        .base = base, .address_bytes = static_cast<int>(address_bytes), .length_bytes = static_cast<int>(length_bytes)};
}

Hdf5Info read_hdf5_info(const Hdf5Id& dataset, const std::string& name, const Hdf5Bytes& file) {
    const Hdf5Lock lock;
    const std::string& path = file.path();
    Hdf5Info info;
    info.name = name;
    const Hdf5Id type(H5Dget_type(dataset.get()), H5Tclose, path, kType);
    const Hdf5Id creation(H5Dget_create_plist(dataset.get()), H5Pclose, path, kLayout);
    info.header = hdf5_header_of(dataset, path);
    read_type(type.get(), file, info);
    info.shape = read_shape(dataset.get(), path);
    read_layout(dataset.get(), creation.get(), path, info);
    read_fill(creation.get(), path, info);
    return info;
}

Hdf5RecordPlace hdf5_record_place(const Hdf5Info& info, std::int64_t record) {
    return info.record_dims == 1 ? Hdf5RecordPlace{record, 0}
                                 : Hdf5RecordPlace{record / info.shape[1], record % info.shape[1]};
}

std::uint64_t hdf5_shape_bytes(const Hdf5Info& info, const Shape& shape, const std::string& path) {
    return with_place({.path = path, .key = info.name}, [&] {
        Shape whole = shape;
        whole.push_back(static_cast<std::int64_t>(info.item_size));
        return checked_array_bytes({}, whole);
    });
}

}  // namespace stoker
