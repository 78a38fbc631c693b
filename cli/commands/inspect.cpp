// stoker inspect: what is in a data set, and with --verify which of its samples are bad.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/field_options.h"
#include "cli/commands/survey.h"
#include "cli/terminal/units.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk.h"

namespace stoker::cli {
namespace {

struct Options {
    std::string data;
    FieldNames fields;
    bool verify = false;
    bool test = false;
    bool json = false;
};

std::string text(const Range& range) {
    return range.low == range.high ? fmt::to_string(range.low) : fmt::format("{} to {}", range.low, range.high);
}

// Fields of an stk data set beyond its image and label.
void add_stk_fields(const Dataset& dataset, nlohmann::ordered_json& fields) {
    const auto* stk = dynamic_cast<const StkDataset*>(&dataset);
    if (stk == nullptr) {
        return;
    }
    const StkSchema& schema = stk->reader().schema();
    for (std::size_t i = 0; i < schema.fields.size(); ++i) {
        const StkField& field = schema.fields[i];
        if (i == schema.first(StkKind::image) || i == schema.first(StkKind::label)) {
            continue;
        }
        fields[field.name] = {{"kind", kind_name(field.kind)}};
        if (field.kind == StkKind::tensor) {
            fields[field.name]["dtype"] = dtype_name(field.dtype);
            fields[field.name]["shape"] = std::vector<std::nullptr_t>(static_cast<std::size_t>(field.rank));
        }
    }
}

nlohmann::ordered_json fields_json(const Dataset& dataset, const Survey& found) {
    const auto side = [](const Range& range) {
        return range.low == range.high ? nlohmann::ordered_json(range.low) : nlohmann::ordered_json();
    };
    nlohmann::ordered_json image = {{"dtype", "uint8"}, {"encoded", found.encoded}};
    if (found.height.high >= found.height.low) {
        image["shape"] = {side(found.height), side(found.width), side(found.channels)};
        image["height"] = {found.height.low, found.height.high};
        image["width"] = {found.width.low, found.width.high};
    }
    nlohmann::ordered_json fields = {{"image", image}};
    if (!found.per_class.empty()) {
        fields["label"] = {{"dtype", "int64"}, {"shape", nlohmann::ordered_json::array()}};
    }
    add_stk_fields(dataset, fields);
    return fields;
}

void print_json(const Dataset& dataset, const Survey& found, bool verified) {
    nlohmann::ordered_json bad = nlohmann::ordered_json::array();
    for (const BadSample& sample : found.bad) {
        nlohmann::ordered_json entry = {{"key", sample.key}, {"offset", nullptr}, {"reason", sample.reason}};
        if (sample.offset) {
            entry["offset"] = *sample.offset;
        }
        entry["index"] = sample.index;
        bad.push_back(entry);
    }
    nlohmann::ordered_json json = {{"format", dataset.format()},
                                   {"path", dataset.path()},
                                   {"samples", dataset.size()},
                                   {"classes", dataset.classes()},
                                   {"class_counts", found.per_class},
                                   {"fields", fields_json(dataset, found)},
                                   {"codecs", found.codecs},
                                   {"codecs_sampled", found.pluralize},
                                   {"progressive", found.progressive},
                                   {"exif_turned", found.turned},
                                   {"unlabelled", found.unlabelled},
                                   {"bytes", dataset.bytes()},
                                   {"advice", dataset.advice()},
                                   {"verified", verified},
                                   {"bad", bad}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string classes_text(const Dataset& dataset, const Survey& found) {
    const std::int64_t named = std::ssize(dataset.classes());
    if (named == 0 && !found.per_class.empty()) {
        return fmt::format("with labels below {}, which have no names", found.per_class.size());
    }
    return named == 0 ? "without names of classes" : "in " + pluralize(named, "class");
}

// Labels without names by their numbers.
std::vector<std::string> class_names(const Dataset& dataset, const Survey& found) {
    std::vector<std::string> names(dataset.classes().begin(), dataset.classes().end());
    while (names.size() < found.per_class.size()) {
        names.push_back(fmt::to_string(names.size()));
    }
    return names;
}

void print_classes(const Dataset& dataset, const Survey& found) {
    constexpr std::size_t kListed = 20;
    const std::vector<std::string> classes = class_names(dataset, found);
    const std::size_t shown = classes.size() <= kListed ? classes.size() : kListed / 2;
    std::size_t name = 5;
    for (std::size_t i = 0; i < shown; ++i) {
        name = std::max(name, classes[i].size());
    }
    if (found.per_class.empty()) {
        return;
    }
    fmt::print("\n{:<{}}  samples\n", "class", name);
    for (std::size_t i = 0; i < shown; ++i) {
        fmt::print("{:<{}}  {:>7}\n", classes[i], name, with_commas(static_cast<double>(found.per_class[i])));
    }
    if (shown < classes.size()) {
        const auto [least, most] = std::ranges::minmax(found.per_class);
        fmt::print("... {} more; {} to {} samples in each of all classes\n", classes.size() - shown,
                   with_commas(static_cast<double>(least)), with_commas(static_cast<double>(most)));
    }
}

void print_table(const Dataset& dataset, const Survey& found, const std::string& data) {
    const bool all = found.read == dataset.size();
    const std::string of = all ? "" : fmt::format("  (of {} spread evenly)", pluralize(found.read, "sample"));
    std::vector<std::string> codecs;
    for (const auto& [name, number] : found.codecs) {
        codecs.push_back(fmt::format("{} {}", name, with_commas(static_cast<double>(number))));
    }
    fmt::print("{}\n", data);
    fmt::print("  format    {}\n", dataset.format());
    fmt::print("  samples   {} {}\n", with_commas(static_cast<double>(dataset.size())), classes_text(dataset, found));
    fmt::print("  bytes     {}\n", with_unit(dataset.bytes()));
    fmt::print("  codecs    {}{}\n", fmt::join(codecs, ", "), found.pluralize == dataset.size() ? "" : of);
    if (found.height.high >= found.height.low) {
        fmt::print("  height    {} pixels{}\n", text(found.height), of);
        fmt::print("  width     {} pixels{}\n", text(found.width), of);
        fmt::print("  channels  {}{}\n", text(found.channels), found.encoded ? " (decoded)" : "");
    }
    if (found.progressive > 0) {
        fmt::print("  slow      {} progressive or interlaced: slower to decode{}\n", found.progressive, of);
    }
    if (found.turned > 0) {
        fmt::print("  turned    {} by EXIF: data.exif = true shows them upright{}\n", found.turned, of);
    }
    if (found.unlabelled > 0) {
        fmt::print("  labels    {} without one{}\n", with_commas(static_cast<double>(found.unlabelled)), of);
    }
    if (const std::string advice = dataset.advice(); !advice.empty()) {
        fmt::print("  advice    {}\n", advice);
    }
    print_classes(dataset, found);
}

void print_bad(const Survey& found) {
    constexpr std::size_t kListed = 20;
    for (std::size_t i = 0; i < std::min(found.bad.size(), kListed); ++i) {
        const BadSample& sample = found.bad[i];
        const std::string offset = sample.offset ? fmt::format(" @ byte {}", *sample.offset) : "";
        fmt::print("{}bad  {}{}: {}\n", i == 0 ? "\n" : "", sample.key, offset, sample.reason);
    }
    if (found.bad.size() > kListed) {
        fmt::print("... {} more; --json lists all\n", found.bad.size() - kListed);
    }
}

int run(const Options& options) {
    if (options.test && !has_splits(options.data)) {
        throw InvalidArgument({.where = "--test",
                               .expected = "a data set with a test split, such as a folder of IDX files",
                               .got = options.data});
    }
    const auto dataset =
        open_dataset(options.data, options.test ? Split::test : Split::train, {.fields = options.fields});
    ProgressBar progress;
    const auto start = std::chrono::steady_clock::now();
    const Survey found = survey(*dataset, options.verify, progress);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (options.json) {
        print_json(*dataset, found, options.verify);
    } else {
        print_table(*dataset, found, options.data);
        print_bad(found);
    }
    if (!found.bad.empty()) {
        fmt::print(stderr, "stoker: [{}] expected good samples, got {} bad of {}\n", options.data, found.bad.size(),
                   pluralize(found.read, "sample"));
        return 1;
    }
    if (!options.json) {
        fmt::print("\n{}\n", options.verify  ? fmt::format("verified: {} decoded in {:.1f} s, none bad",
                                                           pluralize(found.read, "sample"), seconds.count())
                             : found.encoded ? "read: headers only; --verify decodes every sample"
                                             : "read: every sample");
    }
    return 0;
}

}  // namespace

Command add_inspect(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("data", options->data, "a data set as recipes name them: a folder, synth:digits, ...")->required();
    add_field_options(app, options->fields);
    app.add_flag("--verify", options->verify,
                 "decode every sample and list the bad ones; status 1 where there are any");
    app.add_flag("--test", options->test, "the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker inspect data/train --verify\n"
            "  stoker inspect data/mnist --test --json");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
