// Arbitrary bytes as the value of a further field, of each kind and source: DataError, Unsupported, or a field that the
// same bytes fit as a value. The first two bytes choose kind and source.
#include <array>

#include "fuzz/formats/sources.h"
#include "stoker/formats/webdataset/tar_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    if (size < 2) {
        return 0;
    }
    constexpr std::array kSources = {"v", "json:k", "cls", "seg.png"};
    const std::span<const std::byte> bytes = as_input(data + 2, size - 2);
    FieldRequest request{.name = "f", .from = kSources[data[1] % kSources.size()]};
    if (data[0] % 8 < 7) {
        request.kind = static_cast<FieldKind>(data[0] % 8);
    }
    const TarFieldSource source(request);
    for (const bool ragged : {false, true}) {
        Field field;
        if (!succeeds([&] { field = describe_tar_field(request, source, bytes, ragged, "fuzz"); })) {
            continue;
        }
        require(!request.kind || field.kind == *request.kind);
        static FieldValue value;  // reused, as in a worker
        if (succeeds([&] { read_tar_field(field, source, bytes, value); })) {
            require_fits(field, value);
        } else {
            // A field of numbers may begin with a fraction; pixels, images and the depth of JSON are checked when they
            // are read.
            const bool json = field.kind == FieldKind::bytes && !source.key.empty();
            require(has_pixels(field.kind) || field.dtype == DType::int64 || json);
        }
    }
    for (const std::string& key : json_number_keys(bytes)) {
        const FieldRequest of_key{.name = "f", .from = "json:" + key};
        require(succeeds([&] { describe_tar_field(of_key, TarFieldSource(of_key), bytes, false, "fuzz"); }) ||
                key.empty());
    }
    return 0;
}
