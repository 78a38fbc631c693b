// The library keeps errors on a stack, from the outermost call down to the one that failed first.
#include "stoker/formats/hdf5/hdf5_library.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxDatasets = 10'000;

std::recursive_mutex& library_mutex() {
    static std::recursive_mutex mutex;
    // After a damaged file the library's clean-up at exit loops and prints a message. Files that we write are closed
    // before.
    static const herr_t never_at_exit = H5dont_atexit();
    static_cast<void>(never_at_exit);
    return mutex;
}

// Called from C code: must not throw.
herr_t first_error(unsigned number, const H5E_error2_t* error, void* data) noexcept {
    if (number == 0) {
        auto& found = *static_cast<std::pair<const char*, const char*>*>(data);
        found = {error->desc, error->func_name};
    }
    return 0;
}

// The library writes a failed system call as "file read failed: time = ..., errno = 5, error message = ...". Returns
// its errno, or 0 for another reason.
int system_error_in(std::string_view reason) {
    constexpr std::string_view kErrno = "errno = ";
    const std::size_t at = reason.find(kErrno);
    int code = 0;
    if (at != std::string_view::npos) {
        const std::string_view digits = reason.substr(at + kErrno.size());
        std::from_chars(digits.data(), digits.data() + digits.size(), code);
    }
    return code;
}

struct Listing {
    std::vector<std::string> names;
    std::size_t objects = 0;
    bool too_many = false;
    bool no_memory = false;
};

herr_t add_dataset(hid_t /*object*/, const char* name, const H5O_info_t* info, void* data) noexcept {
    auto& listing = *static_cast<Listing*>(data);
    if (++listing.objects > 2 * kMaxDatasets || listing.names.size() > kMaxDatasets) {
        listing.too_many = true;
        return 1;  // stops the visit
    }
    try {
        if (info->type == H5O_TYPE_DATASET) {
            listing.names.emplace_back(name);
        }
    } catch (...) {
        listing.no_memory = true;
        return 1;
    }
    return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(library_mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Lock::~Hdf5Lock() {
    H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_);
}

Hdf5Id::Hdf5Id(hid_t id, Close closer, const std::string& path, std::string_view expected)
    : id_(check_hdf5(id, path, expected)), close_(closer) {}

Hdf5Id::Hdf5Id(Hdf5Id&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(std::exchange(other.close_, nullptr)) {}

Hdf5Id& Hdf5Id::operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
}

Hdf5Id::~Hdf5Id() {
    close();
}

herr_t Hdf5Id::close() {
    if (close_ == nullptr) {
        return 0;
    }
    const Hdf5Lock lock;
    return std::exchange(close_, nullptr)(std::exchange(id_, H5I_INVALID_HID));
}

std::string hdf5_reason() {
    std::pair<const char*, const char*> found = {nullptr, nullptr};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_error, &found);
    std::string text =
        found.first == nullptr ? "an error without a reason" : fmt::format("{} ({})", found.first, found.second);
    for (char& letter : text) {  // parts of a damaged file may be among it
        letter = static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    H5Eclear2(H5E_DEFAULT);
    return text;
}

void fail_hdf5(const std::string& path, std::string_view expected) {
    const std::string reason = hdf5_reason();
    if (const int code = system_error_in(reason); code != 0) {
        throw errno_error(path, std::string(expected), code);
    }
    // Newer versions of the library store data that older ones cannot read, if they are asked for libver="latest".
    const bool newer = reason.find("bad version number") != std::string::npos;
    throw DataError(
        {.path = path},
        {.where = "hdf5",
         .expected = std::string(expected),
         .got = reason,
         .hint = newer ? fmt::format("a newer HDF5 than {}.{}.{} wrote it: rewrite it by h5repack --low=0 --high=1 "
                                     "IN OUT of that version, or without libver=\"latest\"",
                                     H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE)
                       : ""});
}

Hdf5Id open_hdf5(const std::string& path) {
    const Hdf5Lock lock;
    const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path, "a property list");
    check_hdf5(H5Pset_file_locking(access.get(), false, true), path, "to do without file locks");
    return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose, path, "an HDF5 file"};
}

std::uint64_t hdf5_header_of(const Hdf5Id& object, const std::string& path) {
    const Hdf5Lock lock;
    H5O_info_t info{};
    check_hdf5(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC), path, "an object header");
    return info.addr;
}

std::vector<std::string> list_hdf5(const Hdf5Id& file, const std::string& path) {
    const Hdf5Lock lock;
    Listing listing;
    const herr_t status = H5Ovisit2(file.get(), H5_INDEX_NAME, H5_ITER_INC, add_dataset, &listing, H5O_INFO_BASIC);
    if (listing.no_memory) {
        throw std::bad_alloc();
    }
    if (listing.too_many) {
        throw Unsupported({.where = path,
                           .expected = "one dataset with all images",
                           .got = fmt::format("more than {} datasets and groups", kMaxDatasets),
                           .hint = "store the images as one array, or as one dataset of variable-length uint8"});
    }
    check_hdf5(status, path, "a list of datasets");
    return std::move(listing.names);
}

std::string find_external_link(const Hdf5Id& file, const std::string& path) {
    const Hdf5Lock lock;
    std::string found;
    const auto stop_at_external = [](hid_t group, const char* name, const H5L_info_t* info, void* data) -> herr_t {
        if (info->type != H5L_TYPE_EXTERNAL) {
            return 0;
        }
        try {
            std::vector<char> value(std::min(info->u.val_size, std::size_t{1} << 16));
            const char* target = nullptr;
            const char* object = nullptr;
            const bool known = H5Lget_val(group, name, value.data(), value.size(), H5P_DEFAULT) >= 0 &&
                               H5Lunpack_elink_val(value.data(), value.size(), nullptr, &target, &object) >= 0;
            *static_cast<std::string*>(data) =
                known ? fmt::format("{}, a link to {} of {}", name, object, target) : fmt::format("{}, a link", name);
        } catch (const std::exception&) {
            return -1;
        }
        return 1;
    };
    check_hdf5(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, stop_at_external, &found), path, "a list of links");
    return found;
}

}  // namespace stoker
