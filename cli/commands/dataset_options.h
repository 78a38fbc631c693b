// Options of the commands that take a data set: --image-field, --label-field, --field, --context, --memory and --test.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/open.h"
#include "stoker/recipe/field_keys.h"
#include "stoker/recipe/values.h"

namespace stoker::cli {

// --image-field, --label-field and --clips, the command line's form of a recipe's data.fields and data.frames. `fields`
// must outlive `app`.
inline void add_field_options(CLI::App& app, FieldNames& fields) {
    app.add_option("--image-field", fields.image, "the field with the images (default: images, image, img, x or data)")
        ->type_name("NAME");
    app.add_option("--label-field", fields.label, "the field with the labels (default: labels, label, y or targets)")
        ->type_name("NAME");
    app.add_flag(
        "--clips", fields.clips,
        "samples are clips or volumes: arrays of three sides are (T, H, W), and each folder of images within a "
        "class is one; as data.frames of a recipe");
}

// "NAME", "NAME:KIND", "NAME=FROM" or "NAME=FROM:KIND". FROM may have colons ("json:score"): what follows the last one
// is a kind only if a kind has that name.
inline FieldRequest parse_field_option(std::string_view text) {
    FieldRequest request;
    if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
        request.kind = field_kind_named(text.substr(colon + 1));
        text = request.kind ? text.substr(0, colon) : text;
    }
    const std::size_t equals = text.find('=');
    request.name = text.substr(0, equals);
    request.from = equals == std::string_view::npos ? "" : text.substr(equals + 1);
    if (!is_field_name(request.name) || (equals != std::string_view::npos && request.from.empty())) {
        throw CLI::ValidationError(
            "--field",
            fmt::format("expected NAME[=FROM][:KIND], NAME of letters, digits and \"_\" and not image, label, "
                        "index or key, KIND one of value, label, image, mask, boxes, tokens, bytes, got {}",
                        text));
    }
    return request;
}

// --field, the command line's form of a recipe's [data.fields.NAME].
inline void add_further_fields_option(CLI::App& app, FieldNames& fields) {
    app.add_option_function<std::vector<std::string>>(
           "--field",
           [&fields](const std::vector<std::string>& texts) {
               fields.more.clear();
               for (const std::string& text : texts) {
                   fields.more.push_back(parse_field_option(text));
               }
           },
           "a further field of each sample, such as mask=seg.png:mask (repeatable): NAME in the result, FROM in the "
           "data, "
           "and KIND: value, label, image, mask, boxes, tokens or bytes")
        ->type_name("NAME[=FROM][:KIND]")
        ->take_all()
        ->allow_extra_args(false);
}

// --context, the command line's form of a recipe's data.context.
inline void add_context_option(CLI::App& app, std::int64_t& context) {
    app.add_option("--context", context, "tokens in a sample of a token stream, as data.context of a recipe")
        ->type_name("N");
}

// --memory, the command line's form of a recipe's data.memory.
inline void add_memory_option(CLI::App& app) {
    app.add_option_function<std::string>(
           "--memory",
           [](const std::string& text) {
               const std::optional<std::int64_t> bytes = parse_byte_size(text);
               if (!bytes || *bytes < kLeastMemory) {
                   throw CLI::ValidationError("--memory", fmt::format("expected an amount of bytes such as 8GiB, of at "
                                                                      "least {}, got {}",
                                                                      byte_size_text(kLeastMemory), text));
               }
               set_memory_limit(*bytes);
           },
           "memory that this command may use (default: what the machine and its cgroups allow)")
        ->type_name("SIZE");
}

// Opens the test split (--test) or the training split of `data`. Throws InvalidArgument if the test split is requested
// of data without one, and what open_dataset throws.
inline std::unique_ptr<Dataset> open_split(const std::string& data, bool test, const FieldNames& fields = {},
                                           std::int64_t context = 0) {
    if (test && !has_splits(data, fields)) {
        throw InvalidArgument({.where = "--test",
                               .expected = "a data set with a test split, such as a folder of IDX files",
                               .got = data});
    }
    return open_dataset(data, test ? Split::test : Split::train, {.fields = fields, .context = context});
}

}  // namespace stoker::cli
