// stoker pack: converts any data set that Stoker reads to stk, WebDataset, LMDB, HDF5 or npz.
#include "stoker/pack/pack.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/commands/part_option.h"
#include "cli/commands/unread_fields.h"
#include "cli/terminal/advice.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/pluralize.h"
#include "stoker/formats/tokens/token_dataset.h"
#include "stoker/pack/stk_parts.h"
#include "stoker/pack/target.h"
#include "stoker/recipe/values.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct PackArguments {
    std::string data;
    std::string target;
    FieldNames fields;
    std::int64_t context = 0;
    std::string codec;  // empty: the default of the target's format
    std::string shard_size = "256MiB";
    int workers = 0;
    int resize_shorter = 0;
    int quality = 0;
    std::string part;   // "3/8"
    std::string merge;  // the target to merge to, instead of packing
    bool first_frame = false;
    bool skip_bad = false;
    bool test = false;
    bool json = false;
};

std::string checked_target(std::string target) {
    while (target.size() > 1 && target.ends_with('/')) {
        target.pop_back();
    }
    target_format(target);  // throws for an unknown ending, before the data set is opened
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

// The samples that an interrupted packing has kept, and how to resume it.
std::string resume_hint(const PackArguments& options, const PackProgress& last) {
    std::string resume = "run the same command again to resume";
    if (last.kept == last.total || !options.merge.empty()) {
        return resume;
    }
    constexpr std::uint64_t kMostPart = std::uint64_t{64} << 20;  // of targets of one file
    const bool shards = target_format(options.target).shards;
    const std::uint64_t size = checked_shard_size(options.shard_size);
    return fmt::format("{} of {} {} kept: a {} is kept when it is whole, {} (--shard-size){}",
                       with_commas(static_cast<double>(last.kept)), pluralize(last.total, "sample"),
                       last.total == 1 ? "is" : "are", shards ? "shard" : "part",
                       byte_text(static_cast<std::int64_t>(shards ? size : std::min(size, kMostPart))),
                       last.kept > 0 ? "; " + resume : "");
}

void print_json(const PackResult& result, const std::vector<Field>& left_out, double seconds) {
    nlohmann::ordered_json skipped = nlohmann::ordered_json::array();
    for (const SkippedSample& sample : result.skipped) {
        skipped.push_back({{"key", sample.key}, {"reason", sample.reason}});
    }
    print_document({{"path", result.path},
                    {"format", result.format},
                    {"samples", result.samples},
                    {"bytes_in", result.bytes_in},
                    {"bytes_out", result.bytes_out},
                    {"shards", result.shards},
                    {"codecs", result.codecs},
                    {"fields", result.fields},
                    {"left_out", names_of(left_out)},
                    {"kept", result.kept},
                    {"exif_lost", result.exif_lost},
                    {"skipped", std::move(skipped)},
                    {"resumed_samples", result.resumed_samples},
                    {"nothing_to_do", result.nothing_to_do},
                    {"seconds", seconds}});
}

std::string counts(const std::map<std::string, std::int64_t>& of) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : of) {
        parts.push_back(fmt::format("{} {}", name, with_commas(static_cast<double>(count))));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

void print_left_out(const std::vector<Field>& left_out) {
    if (!left_out.empty()) {
        print_stdout("  left out {}\n", left_out_text(left_out));
    }
}

void print_summary(const PackResult& result, const std::vector<Field>& left_out, double seconds,
                   const std::string& split, const char* done = "packed") {
    constexpr std::size_t kListed = 20;
    if (result.nothing_to_do) {
        print_stdout(
            "{}: nothing to do, the data set is complete with {}; `stoker inspect --verify` checks every byte\n",
            result.path, pluralize(result.samples, "sample"));
        print_left_out(left_out);
        return;
    }
    print_stdout("{}\n", result.path);
    print_stdout("  samples  {}{}{}\n", with_commas(static_cast<double>(result.samples)), split,
                 result.resumed_samples > 0 ? fmt::format(", {} of them from an earlier run",
                                                          with_commas(static_cast<double>(result.resumed_samples)))
                                            : "");
    print_stdout("  bytes    {} from {}, in {}\n", byte_text(result.bytes_out), byte_text(result.bytes_in),
                 pluralize(result.shards, "shard"));
    print_stdout("  codecs   {}\n", counts(result.codecs));
    if (!result.fields.empty()) {
        print_stdout("  fields   {}\n", fmt::join(result.fields, ", "));
    }
    print_left_out(left_out);
    if (!result.kept.empty()) {
        print_stdout("  kept     unchanged: {}\n", counts(result.kept));
    }
    if (result.exif_lost > 0) {
        print_stdout("  exif     {} lost their EXIF orientation, which the new bytes do not store\n", result.exif_lost);
    }
    for (std::size_t i = 0; i < std::min(result.skipped.size(), kListed); ++i) {
        print_stdout("  skipped  {}: {}\n", result.skipped[i].key, result.skipped[i].reason);
    }
    if (result.skipped.size() > kListed) {
        print_stdout("  skipped  {} more; --json lists all\n", result.skipped.size() - kListed);
    }
    print_stdout("{} and verified in {:.1f} s\n", done, seconds);
}

// Shows the progress of `work`, which takes a callback for it and gives a PackResult; says how to resume if Ctrl-C
// ends it.
template <typename Work, typename Print>
int run_with_progress(const PackArguments& options, PackProgress last, const Work& work, const Print& print) {
    return run_interruptible(
        [&](const std::atomic<int>& /*stop*/) {
            ProgressBar bar;
            const auto progress = [&](const PackProgress& at) {
                last = at;
                check_interrupt();
                bar.update({.label = at.phase,
                            .done = at.done,
                            .total = at.total,
                            .amount = static_cast<double>(at.bytes) / 1e6,
                            .unit = "MB"});
            };
            const auto start = Clock::now();
            const PackResult result = work(progress);
            const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
            bar.clear();
            print(result, seconds);
            return 0;
        },
        [&] { return resume_hint(options, last); });
}

int usable_workers(const PackArguments& options) {
    return options.workers > 0 ? options.workers : cpu_cores().usable;
}

int run_merge(const PackArguments& given) {
    PackArguments options = given;
    options.target = checked_target(given.merge);
    return run_with_progress(
        options, {},
        [&](const auto& progress) {
            return merge_stk_parts(options.target, {.workers = usable_workers(options), .progress = progress});
        },
        [&](const PackResult& result, double seconds) {
            options.json ? print_json(result, {}, seconds) : print_summary(result, {}, seconds, "", "merged");
        });
}

int run(const PackArguments& given) {
    PackArguments options = given;
    options.target = checked_target(given.target);
    require_outside_data(options.target, {options.data});
    PackOptions pack_options{
        .fields = options.fields,
        .transcode = {.codec = options.codec.empty() ? std::nullopt : std::optional(parse_pack_codec(options.codec)),
                      .resize_shorter = options.resize_shorter,
                      .quality = options.quality,
                      .first_frame = options.first_frame},
        .shard_size = checked_shard_size(options.shard_size),
        .workers = usable_workers(options),
        .skip_bad = options.skip_bad,
        .part = options.part.empty() ? PackPart{} : parse_part(options.part)};
    const auto dataset = open_split(options.data, options.test, options.fields, options.context);
    print_advice(*dataset, dataset->advice());
    if (const auto* tokens = dynamic_cast<const TokenDataset*>(dataset.get()); tokens && tokens->left_over() > 0) {
        print_stderr("{}: left out {} at the end, which fill no sample\n", tokens->path(),
                     pluralize(tokens->left_over(), "token"));
    }
    const std::vector<Field> left_out = unread_fields(*dataset, options.fields);
    const std::string split = options.test ? " of the test split"
                              : options.fields.image.empty() && has_splits(options.data)
                                  ? " of the training split (--test packs the other)"
                                  : "";
    return run_with_progress(
        options, {.total = dataset->size()},
        [&](const auto& progress) {
            pack_options.progress = progress;
            return pack(*dataset, options.target, pack_options);
        },
        [&](const PackResult& result, double seconds) {
            options.json ? print_json(result, left_out, seconds) : print_summary(result, left_out, seconds, split);
        });
}

// The parts were packed with their own options: merging takes only those that say how it works and reports.
void check_merge_options(const CLI::App& app) {
    constexpr std::array<std::string_view, 4> kTaken = {"--merge", "--workers", "--json", "--memory"};
    for (const CLI::Option* option : app.get_options()) {
        if (const std::string name = option->get_name();
            !option->empty() && std::ranges::find(kTaken, name) == kTaken.end()) {
            throw CLI::ValidationError("--merge",
                                       fmt::format("takes no {}: that belongs to the packing of the parts", name));
        }
    }
}

// Packing needs a source and a target; merging only the target.
void check_positionals(const PackArguments& options) {
    const bool any = !options.data.empty() || !options.target.empty();
    if (!options.merge.empty() && (any || !options.part.empty())) {
        throw CLI::ValidationError("--merge", "takes the target alone: stoker pack --merge train.stk");
    }
    if (options.merge.empty() && options.target.empty()) {
        throw CLI::RequiredError(options.data.empty() ? "source" : "target");
    }
}

void add_recode_options(CLI::App& app, const std::shared_ptr<PackArguments>& options) {
    app.add_option(
           "--codec", options->codec,
           "keep: the bytes unchanged (default of .stk); jpeg: unchanged, but dct records are converted back to JPEG "
           "(default "
           "of all other targets); dct, dct-zstd, dct-ans: JPEGs re-coded to decode faster, with the same pixels; raw: "
           "pixels")
        ->check(CLI::IsMember({"keep", "jpeg", "dct", "dct-zstd", "dct-ans", "raw"}));
    app.add_option("--resize-shorter", options->resize_shorter,
                   "reduce larger images until their shorter side has N pixels; JPEGs are encoded again")
        ->type_name("N")
        ->check(CLI::Range(1, 65'535));
    auto* quality =
        app.add_option("--quality", options->quality,
                       "encode every image again as a JPEG of this quality, 1 to 100 (default for resized images: 90)")
            ->type_name("Q")
            ->check(CLI::Range(1, 100));
    app.add_flag("--first-frame", options->first_frame,
                 "take the first frame of an animation, which is a bad sample otherwise");
    app.callback([&app, options, quality] {
        check_positionals(*options);
        if (!options->merge.empty()) {
            check_merge_options(app);
        }
        if (!quality->empty() && options->codec == "raw") {
            throw CLI::ValidationError("--quality", "raw pixels have no quality");
        }
    });
}

}  // namespace

Command add_pack(CLI::App& app) {
    auto options = std::make_shared<PackArguments>();
    app.add_option("source", options->data, "a data set as in recipes: a folder, synth:digits, ...");
    app.add_option("target,-o,--out", options->target,
                   "the data set to write; its ending chooses the format: NAME.stk, NAME.tar, 'NAME-{000000..}.tar' "
                   "(WebDataset "
                   "shards), NAME.lmdb, NAME.h5, NAME.npz. An interrupted packing is resumed");
    add_field_options(app, options->fields);
    add_further_fields_option(app, options->fields);
    add_context_option(app, options->context);
    add_memory_option(app);
    add_recode_options(app, options);
    app.add_option("--shard-size", options->shard_size, "size of each shard, for targets with shards (default: 256MiB)")
        ->type_name("SIZE");
    app.add_option("--workers", options->workers, "threads (default: the usable cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
    app.add_option("--part", options->part,
                   "pack only share INDEX, from 0, of COUNT equal shares of the samples, into NAME.part-INDEX-of-COUNT"
                   ".stk: one on each machine")
        ->type_name("INDEX/COUNT");
    app.add_option("--merge", options->merge,
                   "join the parts of NAME.stk that lie beside it: byte for byte what one packing gives")
        ->type_name("NAME.stk");
    app.add_flag("--skip-bad", options->skip_bad, "skip samples that cannot be decoded, and list them");
    app.add_flag("--test", options->test, "use the test split instead of the training split");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the summary");
    example(app,
            "  stoker pack data/train train.stk --codec dct\n"
            "  stoker pack data/train small.stk --resize-shorter 256 --quality 90 --codec dct-zstd\n"
            "  stoker pack data/mnist test.stk --test\n"
            "  stoker pack data/train 'train-{000000..}.tar' --shard-size 1GiB\n"
            "  stoker pack 'shards-{000..031}.tar' train.stk --field mask=seg.png:mask --field score=json:score\n"
            "  stoker pack data/mnist mnist.npz\n"
            "  stoker pack data/train train.stk --codec dct --part 3/8\n"
            "  stoker pack --merge train.stk");
    return [options] { return options->merge.empty() ? run(*options) : run_merge(*options); };
}

}  // namespace stoker::cli
