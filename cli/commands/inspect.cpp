// stoker inspect: summarises a data set; with --verify decodes every sample and lists the bad ones.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/commands/dataset_summary.h"
#include "cli/commands/part_option.h"
#include "cli/commands/unread_fields.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/base/url_secrets.h"
#include "stoker/pipeline/dataset_advice.h"
#include "stoker/pipeline/mask_values.h"

namespace stoker::cli {

using Json = nlohmann::ordered_json;
namespace {

struct InspectArguments {
    std::string data;
    FieldNames fields;
    std::int64_t context = 0;
    bool verify = false;
    std::string part;
    bool test = false;
    bool json = false;
};

std::string text(const Range& range) {
    return range.low == range.high ? fmt::to_string(range.low) : fmt::format("{} to {}", range.low, range.high);
}

// The fields other than image and label: those that were asked for, then the others that the data hold.
struct FurtherFields {
    std::vector<Field> asked;
    std::vector<Field> others;  // under their names in the data; kinds are guesses
};

FurtherFields further_fields(const Dataset& dataset, const FieldNames& names) {
    return {.asked = {dataset.fields().begin(), dataset.fields().end()}, .others = unread_fields(dataset, names)};
}

// A side of any length is null; images have no shape, since each sample has its own size.
Json field_json(const Field& field, bool asked) {
    Json json = {{"kind", field_kind_name(field.kind)}, {"guessed", !asked}, {"dtype", dtype_name(field.dtype)}};
    if (!has_pixels(field.kind)) {
        json["shape"] = Json::array();
        for (const std::int64_t side : field.shape) {
            json["shape"].push_back(side < 0 ? Json() : Json(side));
        }
    }
    return json;
}

// "mask", "boxes float32 (any, 4)"
std::string field_line(const Field& field) {
    if (has_pixels(field.kind)) {
        return std::string(field_kind_name(field.kind));
    }
    std::vector<std::string> sides;
    for (const std::int64_t side : field.shape) {
        sides.push_back(side < 0 ? "any" : fmt::to_string(side));
    }
    return fmt::format("{} {} ({})", field_kind_name(field.kind), dtype_name(field.dtype), fmt::join(sides, ", "));
}

constexpr std::int64_t kMasks = 32;  // whose values are listed

// The values in some of the masks, ascending; empty for other fields.
std::vector<std::int64_t> mask_values(const Dataset& dataset, const Field& field) {
    const auto number = std::ranges::find(dataset.fields(), field.name, &Field::name) - dataset.fields().begin();
    if (field.kind != FieldKind::mask || number == std::ssize(dataset.fields())) {
        return {};
    }
    const auto counts = count_mask_values(dataset, static_cast<std::size_t>(number), kMasks);
    std::vector<std::int64_t> values;
    for (std::size_t value = 0; value < counts.size(); ++value) {
        if (counts[value] > 0) {
            values.push_back(static_cast<std::int64_t>(value));
        }
    }
    return values;
}

Json fields_json(const Dataset& dataset, const FurtherFields& further, const DatasetSummary& found) {
    const auto side = [](const Range& range) { return range.low == range.high ? Json(range.low) : Json(); };
    Json image = {{"dtype", found.depth}, {"encoded", found.encoded}};
    if (found.ranged > 0) {
        image["range"] = {found.low, found.high};
    }
    if (found.height.high >= found.height.low) {
        image["shape"] = {side(found.height), side(found.width), side(found.channels)};
        if (found.frames.high > 0) {
            image["frames"] = {found.frames.low, found.frames.high};
        }
        image["height"] = {found.height.low, found.height.high};
        image["width"] = {found.width.low, found.width.high};
    }
    if (found.sample_rate.high > 0) {
        image["channels"] = {found.channels.low, found.channels.high};
        image["sample_rate"] = {found.sample_rate.low, found.sample_rate.high};
        image["seconds"] = {found.milliseconds.low / 1000.0, found.milliseconds.high / 1000.0};
    }
    Json fields = Json::object();
    if (dataset.has_image()) {
        fields["image"] = image;
    }
    if (!found.per_class.empty()) {
        fields["label"] = {{"dtype", "int64"}, {"shape", Json::array()}};
    }
    for (const Field& field : further.others) {
        fields[field.name] = field_json(field, false);
    }
    for (const Field& field : further.asked) {
        fields[field.name] = field_json(field, true);
        if (field.kind == FieldKind::mask) {
            fields[field.name]["values"] = mask_values(dataset, field);
        }
    }
    return fields;
}

void print_json(const Dataset& dataset, const FurtherFields& further, const DatasetSummary& found, bool verified) {
    Json bad = Json::array();
    for (const BadSample& sample : found.bad) {
        bad.push_back({{"key", sample.key},
                       {"offset", sample.offset ? Json(*sample.offset) : Json(nullptr)},
                       {"reason", sample.reason},
                       {"index", sample.index}});
    }
    print_document({{"format", dataset.format()},
                    {"path", dataset.path()},
                    {"samples", dataset.size()},
                    {"classes", dataset.classes()},
                    {"class_counts", found.per_class},
                    {"fields", fields_json(dataset, further, found)},
                    {"codecs", found.codecs},
                    {"codecs_sampled", found.codecs_counted},
                    {"progressive", found.progressive},
                    {"exif_turned", found.rotated},
                    {"deep", found.deep},
                    {"paged", found.paged},
                    {"unlabelled", found.unlabelled},
                    {"bytes", dataset.bytes()},
                    {"advice", dataset.advice()},
                    {"verified", verified},
                    {"read", found.read},
                    {"bad", bad}});
}

std::string classes_text(const Dataset& dataset, const DatasetSummary& found) {
    const std::int64_t named = std::ssize(dataset.classes());
    if (named == 0 && !found.per_class.empty()) {
        return fmt::format("in {} without names", pluralize(std::ssize(found.per_class), "class"));
    }
    return named == 0 ? "without class names" : "in " + pluralize(named, "class");
}

// A label without a name is shown as its number.
std::vector<std::string> class_names(const Dataset& dataset, const DatasetSummary& found) {
    std::vector<std::string> names(dataset.classes().begin(), dataset.classes().end());
    while (names.size() < found.per_class.size()) {
        names.push_back(fmt::to_string(names.size()));
    }
    return names;
}

void print_classes(const Dataset& dataset, const DatasetSummary& found) {
    constexpr std::size_t kListed = 20;
    constexpr std::size_t kWidest = 80;
    if (found.per_class.empty()) {
        return;
    }
    const std::vector<std::string> classes = class_names(dataset, found);
    const std::size_t shown = classes.size() <= kListed ? classes.size() : kListed / 2;
    Table table;
    table.column("class", Table::Align::left);
    table.column("samples");
    for (std::size_t i = 0; i < shown; ++i) {
        table.row({for_terminal(classes[i], kWidest), with_commas(static_cast<double>(found.per_class[i]))});
    }
    print_lines("\n" + table.text());
    if (shown < classes.size()) {
        const auto [least, most] = std::ranges::minmax(found.per_class);
        print_stdout("... {} more; each class has {} to {} samples\n", classes.size() - shown,
                     with_commas(static_cast<double>(least)), with_commas(static_cast<double>(most)));
    }
}

// "mask=seg.png:mask": what --field takes to read the field as what it seems to be. A column's kind is given, because a
// table takes every column for numbers.
std::string field_option(const Field& field) {
    const std::string name = is_field_name(field.name) ? field.name : "NAME=" + field.name;
    const std::string kind = field.kind == FieldKind::value ? "" : fmt::format(":{}", field_kind_name(field.kind));
    return quoted_for_shell(name + kind);
}

bool is_text_column(const Dataset& dataset, const Field& field) {
    return dataset.format() == "table" && field.kind == FieldKind::label && field.shape.empty();
}

// "column cx: float32; read it with --field cx"
void print_unread(const Dataset& dataset, const Field& field) {
    const bool column = dataset.format() == "table";
    const bool number = field.kind == FieldKind::value && field.shape.empty();
    print_stdout(
        "  {:<9} {}: {}; read it with {}--field {}\n", column ? "column" : "field", field.name,
        is_text_column(dataset, field) ? "text"
        : number                       ? std::string(dtype_name(field.dtype))
                                       : field_line(field),
        is_text_column(dataset, field) ? fmt::format("--label-field {} or ", quoted_for_shell(field.name)) : "",
        field_option(field));
}

// "; values 0, 255 in 8 masks"; empty for other fields.
std::string mask_values_text(const Dataset& dataset, const Field& field) {
    constexpr std::size_t kListed = 12;
    std::vector<std::int64_t> values = mask_values(dataset, field);
    const std::size_t more = values.size() > kListed ? values.size() - kListed : 0;
    values.resize(values.size() - more);
    return values.empty() ? ""
                          : fmt::format("; values {}{} in {}", fmt::join(values, ", "),
                                        more == 0 ? "" : fmt::format(" and {} more", more),
                                        pluralize(std::min(dataset.size(), kMasks), "mask"));
}

void print_fields(const Dataset& dataset, const FurtherFields& further) {
    for (const Field& field : further.asked) {
        print_stdout("  field     {}: {}{}\n", field.name, field_line(field), mask_values_text(dataset, field));
    }
    for (const Field& field : further.others) {
        print_unread(dataset, field);
    }
}

// The samples that a line is about, unless all were read.
std::string read_text(const Dataset& dataset, const DatasetSummary& found, const std::string& part) {
    if (found.read == dataset.size()) {
        return "";
    }
    const std::string samples = pluralize(found.read, "sample");
    return part.empty() ? fmt::format("  (of {} spread evenly)", samples)
                        : fmt::format("  (of the {} of part {})", samples, part);
}

// ": 12 bits in 16; ..."; empty for other images.
std::string depth_text(const DatasetSummary& found) {
    const std::string advice = found.depth == "uint16" ? few_bits_advice(found.high) : "";
    return advice.empty() ? "" : ": " + advice;
}

void print_table(const Dataset& dataset, const DatasetSummary& found, const InspectArguments& options) {
    const std::string of = read_text(dataset, found, options.part);
    std::vector<std::string> codecs;
    for (const auto& [name, number] : found.codecs) {
        codecs.push_back(fmt::format("{} {}", name, with_commas(static_cast<double>(number))));
    }
    print_stdout("{}\n", shown_url(options.data));
    print_stdout("  format    {}\n", dataset.format());
    print_stdout("  samples   {} {}\n", with_commas(static_cast<double>(dataset.size())), classes_text(dataset, found));
    print_stdout("  bytes     {}\n", byte_text(dataset.bytes()));
    if (dataset.has_image()) {
        print_stdout("  codecs    {}{}\n", fmt::join(codecs, ", "), found.codecs_counted == dataset.size() ? "" : of);
    }
    if (found.height.high >= found.height.low) {
        print_stdout("  height    {} pixels{}\n", text(found.height), of);
        print_stdout("  width     {} pixels{}\n", text(found.width), of);
        print_stdout("  channels  {}{}\n", text(found.channels), found.encoded ? " (decoded)" : "");
        if (found.frames.high > 0) {
            print_stdout("  frames    {}\n", text(found.frames));
        }
    }
    if (found.sample_rate.high > 0) {
        print_stdout("  rate      {} Hz{}\n", text(found.sample_rate), of);
        print_stdout("  seconds   {:.3f} to {:.3f}\n", found.milliseconds.low / 1000.0,
                     found.milliseconds.high / 1000.0);
        print_stdout("  channels  {}\n", text(found.channels));
    }
    if (found.ranged > 0) {
        print_stdout("  values    {}, {:g} to {:g} in {}{}\n", found.depth, found.low, found.high,
                     pluralize(found.ranged, "sample"), depth_text(found));
    }
    if (found.progressive > 0) {
        print_stdout("  slow      {} progressive or interlaced, which decode more slowly{}\n", found.progressive, of);
    }
    if (found.rotated > 0) {
        print_stdout("  rotated   {} with an EXIF orientation; data.exif = true applies it{}\n", found.rotated, of);
    }
    if (found.reduced > 0) {
        print_stdout("  depth     {} of more than 8 bits, which are reduced to 8{}\n", found.reduced, of);
    }
    if (found.paged > 0) {
        print_stdout("  pages     {} have several; the first is read{}\n", found.paged, of);
    }
    if (found.unlabelled > 0) {
        print_stdout("  labels    {} samples without a label{}\n", with_commas(static_cast<double>(found.unlabelled)),
                     of);
    }
    if (const std::string advice = dataset.advice(); !advice.empty()) {
        print_stdout("  advice    {}\n", advice);
    }
}

void print_bad(const DatasetSummary& found) {
    constexpr std::size_t kListed = 20;
    if (!found.bad.empty()) {
        print_lines("\n");
    }
    for (std::size_t i = 0; i < std::min(found.bad.size(), kListed); ++i) {
        const BadSample& sample = found.bad[i];
        const std::string offset = sample.offset ? fmt::format(" @ byte {}", *sample.offset) : "";
        print_stdout("bad  {}{}: {}\n", sample.key, offset, sample.reason);
    }
    if (found.bad.size() > kListed) {
        print_stdout("... {} more; --json lists all\n", found.bad.size() - kListed);
    }
}

int run(const InspectArguments& options) {
    const auto dataset = open_split(options.data, options.test, options.fields, options.context);
    const FurtherFields further = further_fields(*dataset, options.fields);
    ProgressBar progress;
    const auto start = std::chrono::steady_clock::now();
    const DatasetSummary found =
        summarize(*dataset, options.verify, progress, options.part.empty() ? PackPart{} : parse_part(options.part));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (options.json) {
        print_json(*dataset, further, found, options.verify);
    } else {
        print_table(*dataset, found, options);
        print_fields(*dataset, further);
        print_classes(*dataset, found);
        print_bad(found);
    }
    if (!found.bad.empty()) {
        print_stderr("stoker: [{}] expected no bad samples, got {} bad of {}\n", shown_url(options.data),
                     found.bad.size(), pluralize(found.read, "sample"));
        return 1;
    }
    if (!options.json) {
        print_stdout("\n{}\n", options.verify  ? fmt::format("verified: {} decoded in {:.1f} s, none bad",
                                                             pluralize(found.read, "sample"), seconds.count())
                               : found.encoded ? "read: headers only; --verify decodes every sample"
                                               : "read: every sample");
    }
    return 0;
}

}  // namespace

Command add_inspect(CLI::App& app) {
    auto options = std::make_shared<InspectArguments>();
    app.add_option("data", options->data, "a data set as in recipes: a folder, synth:digits, ...")->required();
    add_field_options(app, options->fields);
    add_further_fields_option(app, options->fields);
    add_memory_option(app);
    add_context_option(app, options->context);
    CLI::Option* const verify = app.add_flag(
        "--verify", options->verify, "decode every sample and list the bad ones; exit status 1 if there are any");
    app.add_option("--part", options->part, "verify only share INDEX, from 0, of COUNT equal shares of the samples")
        ->type_name("INDEX/COUNT")
        ->needs(verify);
    app.add_flag("--test", options->test, "use the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker inspect data/train --verify\n"
            "  stoker inspect 'shards-{000..031}.tar' --verify --field mask=seg.png:mask\n"
            "  stoker inspect data/mnist --test --json\n"
            "  srun -n 8 sh -c 'stoker inspect train.stk --verify --part $SLURM_PROCID/8'");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
