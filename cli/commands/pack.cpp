// stoker pack: a data set in Stoker's own format or another usual one, from any that can be read.
#include "stoker/pack/pack.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/field_options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/open.h"
#include "stoker/pack/target.h"
#include "stoker/recipe/values.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string data;
    std::string target;
    FieldNames fields;
    std::string codec;  // empty: what the target's format goes by
    std::string shard_size = "256MiB";
    int workers = 0;
    int resize_shorter = 0;
    int quality = 0;
    bool skip_bad = false;
    bool test = false;
    bool json = false;
};

std::string checked_target(std::string target) {
    while (target.size() > 1 && target.ends_with('/')) {
        target.pop_back();
    }
    target_format(target);  // before the dataset is opened
    return target;
}

std::uint64_t checked_shard_size(const std::string& text) {
    const std::optional<std::int64_t> bytes = parse_byte_size(text);
    if (!bytes || *bytes < 1) {
        throw InvalidArgument({.where = "--shard-size",
                               .expected = "an amount of bytes, such as 256MiB",
                               .got = fmt::format("\"{}\"", text)});
    }
    return static_cast<std::uint64_t>(*bytes);
}

// Draws the bar; each phase has a rate of its own.
class Progress {
  public:
    void operator()(const PackProgress& at) {
        check_interrupt();
        if (phase_ != at.phase) {
            phase_ = at.phase;
            start_ = Clock::now();
            first_ = at.done - 1;
            bytes_ = at.bytes;
        }
        const double seconds = std::max(std::chrono::duration<double>(Clock::now() - start_).count(), 1e-9);
        const double left = seconds * static_cast<double>(at.total - at.done) / static_cast<double>(at.done - first_);
        bar_.update(phase_, at.done, at.total, static_cast<double>(at.bytes - bytes_) / seconds / 1e6, "MB", left);
    }
    void clear() { bar_.clear(); }

  private:
    ProgressBar bar_;
    std::string phase_;
    Clock::time_point start_;
    std::int64_t first_ = 0;
    std::int64_t bytes_ = 0;
};

void print_json(const PackResult& result, double seconds) {
    nlohmann::ordered_json skipped = nlohmann::ordered_json::array();
    for (const SkippedSample& sample : result.skipped) {
        skipped.push_back({{"key", sample.key}, {"reason", sample.reason}});
    }
    const nlohmann::ordered_json json = {{"path", result.path},
                                         {"format", result.format},
                                         {"samples", result.samples},
                                         {"bytes_in", result.bytes_in},
                                         {"bytes_out", result.bytes_out},
                                         {"shards", result.shards},
                                         {"codecs", result.codecs},
                                         {"kept", result.kept},
                                         {"exif_lost", result.exif_lost},
                                         {"skipped", std::move(skipped)},
                                         {"resumed_samples", result.resumed_samples},
                                         {"nothing_to_do", result.nothing_to_do},
                                         {"seconds", seconds}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string counts(const std::map<std::string, std::int64_t>& of) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : of) {
        parts.push_back(fmt::format("{} {}", name, with_commas(static_cast<double>(count))));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

void print_summary(const PackResult& result, double seconds, const std::string& split) {
    constexpr std::size_t kListed = 20;
    if (result.nothing_to_do) {
        fmt::print("{}: nothing to do, it is complete with {}; `stoker inspect --verify` checks every byte\n",
                   result.path, pluralize(result.samples, "sample"));
        return;
    }
    fmt::print("{}\n", result.path);
    fmt::print("  samples  {}{}{}\n", with_commas(static_cast<double>(result.samples)), split,
               result.resumed_samples > 0 ? fmt::format(", {} of them from an earlier run",
                                                        with_commas(static_cast<double>(result.resumed_samples)))
                                          : "");
    fmt::print("  bytes    {} from {}, in {}\n", with_unit(result.bytes_out), with_unit(result.bytes_in),
               pluralize(result.shards, "shard"));
    fmt::print("  codecs   {}\n", counts(result.codecs));
    if (!result.kept.empty()) {
        fmt::print("  kept     as they were: {}\n", counts(result.kept));
    }
    if (result.exif_lost > 0) {
        fmt::print("  turned   {} had an EXIF orientation, which their new bytes do not carry\n", result.exif_lost);
    }
    for (std::size_t i = 0; i < std::min(result.skipped.size(), kListed); ++i) {
        fmt::print("  skipped  {}: {}\n", result.skipped[i].key, result.skipped[i].reason);
    }
    if (result.skipped.size() > kListed) {
        fmt::print("  skipped  {} more; --json lists all\n", result.skipped.size() - kListed);
    }
    fmt::print("packed and verified in {:.1f} s\n", seconds);
}

int run(const Options& given) {
    Options options = given;
    options.target = checked_target(given.target);
    if (options.test && !has_splits(options.data)) {
        throw InvalidArgument({.where = "--test",
                               .expected = "a data set with a test split, such as a folder of IDX files",
                               .got = options.data});
    }
    PackOptions wanted{
        .fields = options.fields,
        .recode = {.codec = options.codec.empty() ? std::nullopt : std::optional(parse_pack_codec(options.codec)),
                   .resize_shorter = options.resize_shorter,
                   .quality = options.quality},
        .shard_size = checked_shard_size(options.shard_size),
        .workers = options.workers > 0 ? options.workers : read_core_budget().usable,
        .skip_bad = options.skip_bad};
    const auto dataset =
        open_dataset(options.data, options.test ? Split::test : Split::train, {.fields = options.fields});
    const std::string split = options.test ? " of the test split"
                              : options.fields.image.empty() && has_splits(options.data)
                                  ? " of the training split (--test packs the other)"
                                  : "";
    catch_signals();
    Progress progress;
    wanted.progress = [&](const PackProgress& at) { progress(at); };
    const auto start = Clock::now();
    try {
        const PackResult result = pack(*dataset, options.target, wanted);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        progress.clear();
        options.json ? print_json(result, seconds) : print_summary(result, seconds, split);
        return 0;
    } catch (const Interrupted& stop) {
        progress.clear();
        fmt::print(stderr, "stoker: stopped by signal {}; the same command goes on where this one ended\n",
                   stop.signal);
        return 128 + stop.signal;
    }
}

void add_recode_options(CLI::App& app, const std::shared_ptr<Options>& options) {
    app.add_option(
           "--codec", options->codec,
           "keep: the bytes as they are (default of .stk); jpeg: the same, but dct records become JPEGs again (default "
           "of all others); dct, dct-zstd: JPEGs in a form that decodes faster, with the same pixels; raw: pixels")
        ->check(CLI::IsMember({"keep", "jpeg", "dct", "dct-zstd", "raw"}));
    app.add_option("--resize-shorter", options->resize_shorter,
                   "reduce larger images until their shorter side has N pixels; JPEGs are then written anew")
        ->type_name("N")
        ->check(CLI::Range(1, 65'535));
    auto* quality = app.add_option("--quality", options->quality,
                                   "write every image anew as a JPEG of this quality, 1 to 100 (resized ones: 90)")
                        ->type_name("Q")
                        ->check(CLI::Range(1, 100));
    app.callback([options, quality] {
        if (!quality->empty() && options->codec == "raw") {
            throw CLI::ValidationError("--quality", "raw pixels have none");
        }
    });
}

}  // namespace

Command add_pack(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("source", options->data, "a data set as recipes name them: a folder, synth:digits, ...")->required();
    app.add_option(
           "target", options->target,
           "the data set to write, by its ending: NAME.stk, NAME.tar, 'NAME-{000000..}.tar' (WebDataset shards), "
           "NAME.lmdb, NAME.h5, NAME.npz; an unfinished one is gone on with")
        ->required();
    add_field_options(app, options->fields);
    add_recode_options(app, options);
    app.add_option("--shard-size", options->shard_size, "bytes in each file of a target with shards (default: 256MiB)")
        ->type_name("SIZE");
    app.add_option("--workers", options->workers, "threads (default: the cores that may be used)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--skip-bad", options->skip_bad, "leave out samples that cannot be decoded, and list them");
    app.add_flag("--test", options->test, "the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the summary");
    example(app,
            "  stoker pack data/train train.stk --codec dct\n"
            "  stoker pack data/train small.stk --resize-shorter 256 --quality 90 --codec dct-zstd\n"
            "  stoker pack data/mnist test.stk --test\n"
            "  stoker pack data/train 'train-{000000..}.tar' --shard-size 1GiB\n"
            "  stoker pack data/mnist mnist.npz");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
