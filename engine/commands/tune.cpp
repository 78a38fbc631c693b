// stoker tune: searches a faster recipe (tune/tuner.h) and writes it. Ctrl-C ends the search and keeps what was found.
#include "stoker/tune/tuner.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "cli/terminal/temp_folder.h"
#include "engine/commands.h"
#include "engine/ranks.h"
#include "engine/tune/open_trial.h"
#include "engine/tune/pack_sample.h"
#include "stoker/base/file.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/recipe/field_keys.h"
#include "stoker/recipe/recipe_edit.h"
#include "stoker/recipe/values.h"
#include "stoker/tune/packing.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct TuneArguments {
    std::string recipe;
    std::vector<std::string> sets;
    std::string output = "tuned.toml";
    std::string budget = "5min";
    std::vector<std::string> allow;
    std::string pack;  // a folder; empty: packing is only suggested
    bool json = false;
};

std::optional<double> budget_seconds(const std::string& text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = parse_number<int>(text.substr(0, digits));
    const std::string unit = text.substr(digits);
    const double seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
    return number && *number > 0 && seconds > 0 ? std::optional(*number * seconds) : std::nullopt;
}

// "data.workers=4" of a --set.
RecipeEdit edit_of_set(const std::string& set, const Recipe& recipe) {
    const std::string key = set.substr(0, set.find('='));
    return {.key = key, .value = find_any_key(key).value().write(recipe), .comment = "set by --set"};
}

bool changed_again(const std::vector<TriedChange>& kept, std::size_t from, const std::string& key) {
    return std::any_of(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.end(), [&](const TriedChange& later) {
        return std::ranges::find(later.change, key, &RecipeChange::key) != later.change.end();
    });
}

// A key that was changed more than once is written with its last value alone.
std::vector<RecipeEdit> edits_of(const TuneArguments& options, const Recipe& recipe, const TuneResult& result) {
    std::vector<RecipeEdit> edits;
    for (const std::string& set : options.sets) {
        edits.push_back(edit_of_set(set, recipe));
    }
    for (std::size_t at = 0; at < result.kept.size(); ++at) {
        const TriedChange& kept = result.kept[at];
        for (std::size_t i = 0; i < kept.change.size(); ++i) {
            if (changed_again(result.kept, at + 1, kept.change[i].key)) {
                continue;
            }
            edits.push_back({.key = kept.change[i].key,
                             .value = kept.change[i].value,
                             .comment = fmt::format("stoker tune: {} with {}; was {}", text_of(*kept.measured),
                                                    text_of(kept.change), kept.before[i])});
        }
    }
    return edits;
}

// The options by which `stoker pack` reads the fields of the recipe.
std::string field_options(const FieldsRecipe& fields) {
    std::string options;
    const auto add = [&](const char* name, const std::string& value) {
        options += value.empty() ? "" : fmt::format(" {} {}", name, quoted_for_shell(value));
    };
    add("--image-field", fields.image);
    add("--label-field", fields.label);
    for (const FieldRecipe& field : fields.more) {
        add("--field", fmt::format("{}{}:{}", field.name, field.from.empty() ? "" : "=" + field.from, field.is));
    }
    return options;
}

std::string pack_command(const Recipe& recipe, const TriedChange& change) {
    const std::string name = fs::path(recipe.data.train).filename().string();
    return fmt::format("stoker pack {} {} --codec {}{}{}", quoted_for_shell(recipe.data.train),
                       quoted_for_shell((name.empty() ? "train" : name) + ".stk"), change.pack_codec,
                       field_options(recipe.data.fields), recipe.data.first_frame ? " --first-frame" : "");
}

Json value_of(const std::string& toml) {
    Json value = Json::parse(toml, nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? Json(toml) : value;
}

Json interval_of(const Estimate& estimate) {
    return estimate.has_interval() ? Json{estimate.low, estimate.high} : Json(nullptr);
}

Json document_of(const Recipe& recipe, const TriedChange& tried) {
    Json change = Json::object();
    for (const RecipeChange& each : tried.change) {
        change[each.key] = value_of(each.value);
    }
    Json document = {{"change", change},
                     {"predicted", tried.predicted ? Json(*tried.predicted) : Json(nullptr)},
                     {"measured", nullptr},
                     {"interval", nullptr}};
    if (tried.measured) {
        document["measured"] = tried.measured->median;
        document["interval"] = interval_of(*tried.measured);
    }
    if (!tried.reason.empty()) {
        document["reason"] = tried.reason;
    }
    if (!tried.pack_codec.empty()) {
        document["command"] = pack_command(recipe, tried);
    }
    return document;
}

void print_json(const Recipe& recipe, const std::string& output, const TuneResult& result) {
    const auto list = [&recipe](const std::vector<TriedChange>& changes) {
        Json documents = Json::array();
        for (const TriedChange& change : changes) {
            documents.push_back(document_of(recipe, change));
        }
        return documents;
    };
    print_document(
        {{"baseline", result.baseline},
         {"tuned", result.tuned},
         {"gain", result.gain ? Json{{"measured", result.gain->median}, {"interval", interval_of(*result.gain)}}
                              : Json(nullptr)},
         {"kept", list(result.kept)},
         {"rolled_back", list(result.rolled_back)},
         {"suggested", list(result.suggested)},
         {"untried", list(result.untried)},
         {"recipe", output.empty() ? Json(nullptr) : Json(output)},
         {"seconds", result.seconds},
         {"interrupted", result.interrupted}});
}

void add_rows(Table& table, const Recipe& recipe, const std::vector<TriedChange>& changes, const std::string& outcome) {
    for (const TriedChange& tried : changes) {
        table.row({tried.pack_codec.empty() ? text_of(tried.change) : pack_command(recipe, tried),
                   tried.predicted ? fmt::format("{:.2f}x", *tried.predicted) : "",
                   tried.measured ? fmt::format("{:.2f}x", tried.measured->median) : "",
                   tried.measured && tried.measured->has_interval()
                       ? fmt::format("{:.2f} to {:.2f}", tried.measured->low, tried.measured->high)
                       : "",
                   tried.reason.empty() ? outcome : fmt::format("{}: {}", outcome, tried.reason)});
    }
}

// Why nothing was kept.
std::string nothing_kept(const TuneResult& result, double budget) {
    const bool measured =
        std::ranges::any_of(result.rolled_back, [](const TriedChange& tried) { return tried.measured.has_value(); });
    const bool out_of_time = result.seconds >= budget;
    if (!result.interrupted && !out_of_time) {
        return result.suggested.empty() ? "nothing to change" : "packing is suggested";
    }
    const char* ended = result.interrupted ? "the search was stopped" : "the budget ended";
    return fmt::format("{} before any change was {}", ended, measured ? "found to help" : "measured");
}

void print_table(const Recipe& recipe, const std::string& output, const TuneResult& result, double budget) {
    Table table;
    table.column("change", Table::Align::left);
    table.column("predicted");
    table.column("measured");
    table.column("95 % interval");
    table.column("outcome", Table::Align::left);
    add_rows(table, recipe, result.kept, "kept");
    add_rows(table, recipe, result.suggested, "suggested");
    add_rows(table, recipe, result.rolled_back, "rolled back");
    add_rows(table, recipe, result.untried, "not tried");
    if (result.kept.size() + result.suggested.size() + result.rolled_back.size() + result.untried.size() > 0) {
        print_lines(table.text());
    }
    const std::string gain = result.gain ? text_of(*result.gain) + " in paired runs"
                                         : fmt::format("{:.2f}x", result.tuned / result.baseline);
    print_stdout("{:.1f} -> {:.1f} images/s, {}, in {:.0f} s; {}{}\n", result.baseline, result.tuned, gain,
                 result.seconds, result.kept.empty() ? nothing_kept(result, budget) + "; " : "",
                 output.empty()        ? "nothing was written"
                 : result.kept.empty() ? fmt::format("{} is the original recipe", output)
                                       : fmt::format("written to {}", output));
}

std::optional<PackedPart> pack_for_trial(const Recipe& recipe, const PackRequest& request, const fs::path& folder) {
    constexpr double kMostBytes = 4.0 * (1 << 30);
    constexpr double kShareOfFree = 0.5;
    try {
        const auto free = static_cast<double>(fs::space(folder).available);
        return pack_part(recipe, request.codec, request.samples, folder,
                         {.bytes = std::min(kMostBytes, kShareOfFree * free), .seconds = request.seconds});
    } catch (const Interrupted&) {
        throw TrialStopped();
    } catch (const Error& error) {
        throw TrialFailed(error.what());
    } catch (const fs::filesystem_error& error) {
        throw TrialFailed(error.what());
    }
}

std::optional<std::int64_t> count_val_samples(const DataRecipe& recipe) {
    try {
        return open_val_data(recipe).val->size();
    } catch (const std::exception&) {  // there are none, or the run will say what is wrong with them
        return std::nullopt;
    }
}

// Fails before the search if the text cannot be edited.
void require_editable(const std::string& text, const TuneArguments& options, const Recipe& recipe) {
    std::vector<RecipeEdit> edits = edits_of(options, recipe, {});
    for (const auto& [key, value] : {std::pair{"data.workers", "1"}, std::pair{"data.cache", "\"ram\""},
                                     std::pair{"train.threads", "1"}, std::pair{"train.channels_last", "true"}}) {
        edits.push_back({.key = key, .value = value, .comment = "a comment"});
    }
    edit_recipe(text, edits, options.recipe);
}

// Writes the tuned recipe, and returns the file's name. If no change was kept, a file that exists is not changed, and
// the name is empty.
std::string write_tuned(const TuneArguments& options, const Recipe& recipe, const std::string& text,
                        const TuneResult& result) {
    std::error_code unknown;
    if (result.kept.empty() && fs::exists(options.output, unknown)) {
        print_stderr("nothing was kept; {} stays as it is\n", options.output);
        return "";
    }
    write_file(options.output, edit_recipe(text, edits_of(options, recipe, result), options.recipe));
    return options.output;
}

// Writes the recipe, then packs all of the data if that was kept, and writes the recipe again. Packing can take long
// and fail: then `result` is what holds without it.
void write_and_pack(const TuneArguments& options, const Recipe& recipe, const std::string& text, TuneResult& result,
                    std::string& written) {
    const std::optional<Packing> packing = take_packing(result);
    if (!packing) {
        written = write_tuned(options, recipe, text, result);
        return;
    }
    TuneResult whole = result;
    suggest(result, *packing);
    if (result.interrupted || !result.kept.empty()) {
        written = write_tuned(options, recipe, text, result);
    }
    if (result.interrupted) {
        return;
    }
    const std::string& codec = packing->change.pack_codec;
    print_stderr("packing {} with --codec {} into {}\n", recipe.data.train, codec, options.pack);
    const auto packed = pack_part(recipe, codec, 0, options.pack);
    if (packed.value().left_out > 0) {
        print_stderr("{} that cannot be read {} left out; training replaces {}\n",
                     pluralize(packed->left_out, "sample"), packed->left_out == 1 ? "was" : "were",
                     packed->left_out == 1 ? "it" : "them");
    }
    keep(whole, *packing, {{"data.train", toml_string(packed.value().path.string())}});
    result = std::move(whole);
    written = write_tuned(options, recipe, text, result);
}

// Checks the folder for packed data before the search.
void prepare_pack_folder(const TuneArguments& options, const Recipe& recipe) {
    if (options.pack.empty()) {
        return;
    }
    require_outside_data(options.pack, {recipe.data.train});
    require_writable_folder(options.pack);
    require_packable(recipe, options.pack);
    fs::create_directories(options.pack);
}

int run(const TuneArguments& options) {
    require_one_rank("stoker tune");
    const Allowed allowed = parse_allowed(options.allow);
    const double budget = budget_seconds(options.budget).value();  // the option is checked
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const std::string text = read_text(options.recipe);
    require_editable(text, options, recipe);
    require_writable_file(options.output);
    prepare_pack_folder(options, recipe);
    return run_interruptible([&](const std::atomic<int>& stop) {
        announce_interrupt("stoker: ending the search; the changes so far are kept");
        const TempFolder folder("stoker-tune", options.pack);  // on the disk that packed data will be on
        const TuneOptions tune_options{
            .budget_seconds = budget,
            .allowed = allowed,
            .keep_packed = !options.pack.empty(),
            .pack_sample = [&](const PackRequest& request) { return pack_for_trial(recipe, request, folder.path()); },
            .val_samples = [&] { return count_val_samples(recipe.data); },
            .on_progress = [](const std::string& line) { print_stderr("{}\n", line); }};
        TuneResult result;
        try {
            result = tune(recipe, options.sets, tune_options, trial_opener(options.recipe, stop));
        } catch (const TrialStopped&) {
            throw Interrupted{stop};  // before there was anything to keep
        }
        std::string written;
        std::exception_ptr failed;  // the findings are printed first
        try {
            write_and_pack(options, recipe, text, result, written);
        } catch (const Interrupted&) {
            result.interrupted = true;
        } catch (const std::exception&) {
            failed = std::current_exception();
        }
        options.json ? print_json(recipe, written, result) : print_table(recipe, written, result, budget);
        if (failed) {
            std::rethrow_exception(failed);
        }
        return result.interrupted ? 128 + stop : 0;
    });
}

}  // namespace

Command add_tune(CLI::App& app) {
    auto options = std::make_shared<TuneArguments>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "device=cpu");
    app.add_option("-o,--out", options->output, "the recipe to write")->capture_default_str()->type_name("FILE");
    app.add_option("--budget", options->budget, "the time for the search, such as 90s, 5min or 1h")
        ->capture_default_str()
        ->type_name("TIME")
        ->check([](const std::string& text) {
            return budget_seconds(text) ? "" : fmt::format("expected a time such as 90s, 5min or 1h, got \"{}\"", text);
        });
    app.add_option("--allow", options->allow,
                   "what may change although the model then learns differently: precision, decode, batch_size")
        ->type_name("WHAT")
        ->delimiter(',')
        ->check(CLI::IsMember({"precision", "decode", "batch_size"}));
    app.add_option("--pack", options->pack,
                   "where packing the data helps, pack all of it into this folder; otherwise it is only suggested")
        ->type_name("DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(
        app,
        "  stoker tune recipes/digits.toml -o tuned.toml --budget 2min\n"
        "  stoker tune recipe.toml --allow precision,decode --pack packed\n"
        "The learning stays the same unless --allow says otherwise. Ctrl-C ends the search and keeps what was found.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
