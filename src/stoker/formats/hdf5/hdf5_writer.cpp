// Object times are not stored, so that the same samples give the same file. The format of HDF5 1.8 is used, because
// older object headers cannot hold attributes above 64 KiB (many class names).
#include "stoker/formats/hdf5/hdf5_writer.h"

#include <fcntl.h>

#include <fmt/format.h>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {
namespace {

// An Hdf5Id of an id that may be invalid: callers make several calls and check the results together.
Hdf5Id own(hid_t id, Hdf5Id::Close close) {
    return id < 0 ? Hdf5Id() : Hdf5Id(id, close, "", "");
}

bool is_open(const Hdf5Id& id) {
    return id.get() >= 0;
}

// `length` may be H5T_VARIABLE.
Hdf5Id text_type(std::size_t length = H5T_VARIABLE) {
    Hdf5Id type = own(H5Tcopy(H5T_C_S1), H5Tclose);
    if (H5Tset_size(type.get(), length) < 0 || H5Tset_cset(type.get(), H5T_CSET_UTF8) < 0) {
        return {};
    }
    return type;
}

// IEEE's half precision, as h5py writes it.
Hdf5Id half_type() {
    Hdf5Id type = own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    const bool made = H5Tset_fields(type.get(), 15, 10, 5, 0, 10) >= 0 && H5Tset_size(type.get(), 2) >= 0 &&
                      H5Tset_ebias(type.get(), 15) >= 0;
    return made ? std::move(type) : Hdf5Id();
}

// In the file and in memory: both are little-endian.
Hdf5Id element_type(Hdf5Type type) {
    switch (type) {
        case Hdf5Type::uint8:
            return own(H5Tcopy(H5T_STD_U8LE), H5Tclose);
        case Hdf5Type::uint16:
            return own(H5Tcopy(H5T_STD_U16LE), H5Tclose);
        case Hdf5Type::int16:
            return own(H5Tcopy(H5T_STD_I16LE), H5Tclose);
        case Hdf5Type::int32:
            return own(H5Tcopy(H5T_STD_I32LE), H5Tclose);
        case Hdf5Type::int64:
            return own(H5Tcopy(H5T_STD_I64LE), H5Tclose);
        case Hdf5Type::float16:
            return half_type();
        case Hdf5Type::float32:
            return own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
        case Hdf5Type::float64:
            return own(H5Tcopy(H5T_IEEE_F64LE), H5Tclose);
        case Hdf5Type::vlen_uint8:
            return own(H5Tvlen_create(H5T_STD_U8LE), H5Tclose);
        case Hdf5Type::text:
            return text_type();
    }
    return {};
}

}  // namespace

Hdf5Type hdf5_type(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return Hdf5Type::uint8;
        case DType::uint16:
            return Hdf5Type::uint16;
        case DType::int16:
            return Hdf5Type::int16;
        case DType::int32:
            return Hdf5Type::int32;
        case DType::int64:
            return Hdf5Type::int64;
        case DType::float16:
            return Hdf5Type::float16;
        case DType::float32:
            return Hdf5Type::float32;
        case DType::float64:
            return Hdf5Type::float64;
        case DType::bfloat16:
            break;
    }
    throw InvalidArgument({.where = "hdf5", .expected = "a type that HDF5 has", .got = std::string(dtype_name(dtype))});
}

struct Hdf5Writer::Handles {
    Hdf5Id file;
    Hdf5Id dataset;
    Hdf5Id type;  // of its elements
    Hdf5Type kind = Hdf5Type::uint8;
    std::string name;
    std::vector<hsize_t> shape;
    hsize_t row_bytes = 0;
    hsize_t written = 0;  // rows
};

Hdf5Writer::Hdf5Writer(std::filesystem::path path) : path_(std::move(path)), handles_(std::make_unique<Handles>()) {
    const Hdf5Lock lock;
    const Hdf5Id access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    const Hdf5Id create = own(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    const bool good = H5Pset_obj_track_times(create.get(), false) >= 0;  // for the root group
    handles_->file = own(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, create.get(), access.get()), H5Fclose);
    if (!good || !is_open(handles_->file)) {
        fail("a file that can be made");
    }
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::fail(const char* expected) const {
    throw IoError({.where = path_.string(), .expected = expected, .got = hdf5_reason()});
}

void Hdf5Writer::begin(const std::string& name, Hdf5Type type, const Shape& shape) {
    const Hdf5Lock lock;
    Handles& h = *handles_;
    h.kind = type;
    h.name = name;
    h.written = 0;
    h.shape.assign(shape.begin(), shape.end());
    h.type = element_type(type);
    const bool fixed = type != Hdf5Type::vlen_uint8 && type != Hdf5Type::text;
    h.row_bytes = fixed && is_open(h.type) ? H5Tget_size(h.type.get()) : 1;
    for (std::size_t i = 1; i < h.shape.size(); ++i) {
        h.row_bytes *= h.shape[i];
    }
    const Hdf5Id space = own(H5Screate_simple(static_cast<int>(h.shape.size()), h.shape.data(), nullptr), H5Sclose);
    const Hdf5Id create = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    bool good = H5Pset_obj_track_times(create.get(), false) >= 0;
    if (fixed) {  // all elements will be written, in order
        good = good && H5Pset_alloc_time(create.get(), H5D_ALLOC_TIME_EARLY) >= 0 &&
               H5Pset_fill_time(create.get(), H5D_FILL_TIME_NEVER) >= 0;
    }
    h.dataset =
        own(H5Dcreate2(h.file.get(), name.c_str(), h.type.get(), space.get(), H5P_DEFAULT, create.get(), H5P_DEFAULT),
            H5Dclose);
    if (!good || !is_open(h.type) || !is_open(h.dataset)) {
        fail("room for a dataset");
    }
}

void Hdf5Writer::write(std::int64_t rows, const void* data) {
    const Hdf5Lock lock;
    Handles& h = *handles_;
    std::vector<hsize_t> start(h.shape.size(), 0);
    std::vector<hsize_t> count = h.shape;
    start[0] = h.written;
    count[0] = static_cast<hsize_t>(rows);
    if (rows == 0) {
        return;
    }
    if (count[0] > h.shape[0] - h.written) {
        throw InternalError({.where = path_.string(), .expected = "no more rows than the shape says", .got = "more"});
    }
    const Hdf5Id file = own(H5Dget_space(h.dataset.get()), H5Sclose);
    const Hdf5Id memory = own(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
        H5Dwrite(h.dataset.get(), h.type.get(), memory.get(), file.get(), H5P_DEFAULT, data) < 0) {
        fail("room to write");
    }
    h.written += count[0];
}

void Hdf5Writer::append(std::span<const std::byte> elements) {
    write(static_cast<std::int64_t>(elements.size() / handles_->row_bytes), elements.data());
}

void Hdf5Writer::append(std::span<const std::span<const std::byte>> elements) {
    const auto rows = static_cast<std::int64_t>(elements.size());
    if (handles_->kind == Hdf5Type::text) {
        std::vector<std::string> texts;
        std::vector<const char*> starts;
        texts.reserve(elements.size());
        for (const auto element : elements) {
            starts.push_back(texts.emplace_back(as_text(element)).c_str());
        }
        return write(rows, starts.data());
    }
    std::vector<hvl_t> values;
    values.reserve(elements.size());
    for (const auto element : elements) {
        values.push_back({element.size(), const_cast<std::byte*>(element.data())});  // H5Dwrite only reads it
    }
    write(rows, values.data());
}

// Strings have variable length, which h5py returns as str. An attribute above 64 KiB is stored outside its object's
// header; our reader supports only strings of fixed length there (hdf5_columns.cpp).
void Hdf5Writer::attribute(const std::string& name, std::span<const std::string> texts) {
    const Hdf5Lock lock;
    constexpr std::size_t kInHeader = std::size_t{60} << 10;
    constexpr std::size_t kHeapId = 16;
    const bool fixed = texts.size() * kHeapId > kInHeader;
    std::size_t longest = 1;
    for (const std::string& text : texts) {
        longest = std::max(longest, text.size());
    }
    const auto count = static_cast<hsize_t>(texts.size());
    const Hdf5Id space = own(H5Screate_simple(1, &count, nullptr), H5Sclose);
    const Hdf5Id type = text_type(fixed ? longest : H5T_VARIABLE);
    const Hdf5Id attribute = own(
        H5Acreate2(handles_->dataset.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    std::vector<const char*> starts;
    std::string padded;
    for (const std::string& text : texts) {
        starts.push_back(text.c_str());
        padded += text;
        padded.resize(starts.size() * longest, '\0');
    }
    const void* data = fixed ? static_cast<const void*>(padded.data()) : starts.data();
    if (!is_open(attribute) || H5Awrite(attribute.get(), type.get(), data) < 0) {
        fail("room for an attribute");
    }
}

void Hdf5Writer::end() {
    const Hdf5Lock lock;
    if (handles_->written != handles_->shape[0]) {
        throw InternalError({.where = fmt::format("{}/{}", path_.string(), handles_->name),
                             .expected = fmt::format("{} rows", handles_->shape[0]),
                             .got = fmt::format("{}", handles_->written)});
    }
    if (handles_->dataset.close() < 0) {
        fail("room to write");
    }
}

void Hdf5Writer::finish() {
    {
        const Hdf5Lock lock;  // not held during fsync
        if (handles_->file.close() < 0) {
            fail("room to write");
        }
    }
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        throw errno_error(path_.string(), "a readable file");
    }
    sync_file(file.get(), path_);
}

}  // namespace stoker
