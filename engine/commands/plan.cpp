// stoker plan: how fast several processes would train a recipe, and what memory each needs. It measures one process'
// share of a step here, and computes the rest (dist/cost_model.h).
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "cli/terminal/print.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/table.h"
#include "engine/commands.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/dist/pipeline_cost.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/rank_step.h"
#include "stoker/train/run/model_stages.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostRanks = 65536;

// Gloo's share of a link: 1448 bytes of each packet's 1514, plus half an acknowledgement of 66 for each packet that
// arrives.
constexpr double kTcpShare = 1448.0 / (1514 + 33);

struct PlanArguments {
    std::string recipe;
    std::vector<std::string> sets;
    std::optional<int> ranks;
    std::string link = "400Gb";
    double latency_us = 5;
    std::optional<double> step_ms;
    bool json = false;
};

// Bytes a second: "400Gb" and "100Mb" are bits, "25GB" is bytes.
double link_speed(const std::string& text) {
    struct Unit {
        std::string_view name;
        double bytes;
    };
    constexpr std::array kUnits = {Unit{"Mb", 1e6 / 8}, Unit{"Gb", 1e9 / 8}, Unit{"Tb", 1e12 / 8},
                                   Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12}};
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& known : kUnits) {
        if (error == std::errc() && value > 0 && unit == known.name) {
            return value * known.bytes;
        }
    }
    throw BadSetting({.where = "--link",
                      .expected = "a speed such as 400Gb or 100Mb (bits a second), or 25GB (bytes a second)",
                      .got = "\"" + text + "\""});
}

// One row of the tables: the number of ranks, and the state that they divide (train.shard).
struct Row {
    Distribution how;
    RankStepCost cost;
    RankMemory memory;
};

// The model divided into stages, over --ranks.
struct PipelineRow {
    PipelineShape shape;
    PipelineCost cost;
};

const char* shard_name(const Distribution& how) {
    switch (how.shard) {
        case Shard::optimizer:
            return "optimizer";
        case Shard::full:
            return "full";
        case Shard::none:
            break;
    }
    return "none";
}

// --ranks; else as many as train.mesh needs, or as measure at once, or 8.
int ranks_of(const PlanArguments& options, const MeshRecipe& mesh, int processes) {
    const int usual = processes > 1 ? processes : 8;
    const int ranks = options.ranks.value_or(mesh.dp ? static_cast<int>(*mesh.dp * mesh.copy()) : usual);
    if (ranks < processes) {
        throw InvalidArgument({.where = "stoker plan --ranks",
                               .expected = fmt::format("at least the {} processes that measure at once", processes),
                               .got = fmt::to_string(ranks),
                               .hint = fmt::format("stoker launch --nproc-per-node {}", ranks)});
    }
    return ranks;
}

std::vector<Row> predict(const MeasuredRank& rank, int first_count, const Link& link, const Recipe& recipe) {
    const double gradient_scale = recipe.train.compress_gradients == "none" ? 1 : 0.5;
    const MeshRecipe& mesh = recipe.train.mesh;
    const int tensor = static_cast<int>(mesh.tp);
    const int copy = static_cast<int>(mesh.copy());
    std::vector<int> counts = {first_count};
    for (const int more : {8, 64, 512, 4096}) {
        if (more > counts[0] && more % copy == 0 && !mesh.dp) {
            counts.push_back(more);
        }
    }
    std::vector<Row> rows;
    for (const int ranks : counts) {
        for (const Shard shard : {Shard::none, Shard::optimizer, Shard::full}) {
            if (shard == Shard::full && tensor > 1) {
                continue;  // the recipe's rules exclude it
            }
            const Distribution how{.ranks = ranks, .tensor = tensor, .shard = shard, .gradient_scale = gradient_scale};
            rows.push_back(
                {how, predict_step(rank.step, how, link), divide_memory(rank.memory, how, rank.step.blocks)});
        }
    }
    return rows;
}

// As many stages as train.mesh.pp, and powers of two, as far as the ranks and the blocks allow it.
std::vector<PipelineRow> predict_pipelines(const MeasuredRank& rank, int ranks, const Link& link,
                                           const Recipe& recipe) {
    std::vector<PipelineRow> rows;
    const MeshRecipe& mesh = recipe.train.mesh;
    const auto trained = std::ranges::count_if(rank.blocks, [](const BlockCost& block) { return block.gradients > 0; });
    for (int stages = 2; stages <= std::min<std::int64_t>(trained, ranks / mesh.tp); ++stages) {
        const bool wanted = stages == mesh.pp || std::has_single_bit(static_cast<unsigned>(stages));
        if (!wanted || ranks / mesh.tp % stages != 0) {
            continue;
        }
        const int copies = ranks / static_cast<int>(mesh.tp) / stages;
        const double samples = static_cast<double>(recipe.data.batch_size) / copies;
        const std::int64_t parts = std::min(recipe.train.accumulate, std::max<std::int64_t>(std::llround(samples), 1));
        const PipelineShape shape{.stages = stages,
                                  .copies = copies,
                                  .micro_batches = parts,
                                  .samples = samples / static_cast<double>(parts * rank.micro_batch()),
                                  .update = rank.step.update,
                                  .gradient_scale = recipe.train.compress_gradients == "none" ? 1 : 0.5};
        rows.push_back({shape, predict_pipeline(rank.blocks, shape, link)});
    }
    return rows;
}

// The measured times, stretched to those of another device.
void scale_to(MeasuredRank& rank, double seconds) {
    RankStep& step = rank.step;
    const double factor = seconds / step.compute();
    for (BlockCost& block : rank.blocks) {
        block.seconds *= factor;
    }
    for (double* time : {&step.forward, &step.backward, &step.update}) {
        *time *= factor;
    }
    for (GradientReady& gradient : step.gradients) {
        gradient.at *= factor;
    }
}

std::string ms(double seconds) {
    return fmt::format("{:.2f}", seconds * 1e3);
}

std::string mib(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

void print_plan(const Recipe& recipe, const MeasuredRank& rank, const std::vector<Row>& rows,
                const PlanArguments& options, int processes) {
    print_stdout("{}: {:.2f} M parameters; each process {} of {} samples a step, {} ({} threads)\n", recipe.name,
                 static_cast<double>(rank.parameters) / 1e6, rank.samples, recipe.data.batch_size, rank.device,
                 rank.threads);
    print_stdout("{}: forward {} ms, backward {} ms, update {} ms{}{}\n",
                 processes > 1 ? fmt::format("the slowest of {} processes at once", processes) : "one process",
                 ms(rank.step.forward), ms(rank.step.backward), ms(rank.step.update),
                 rank.step.micro_batches > 1 ? fmt::format(", {} micro-batches", rank.step.micro_batches) : "",
                 options.step_ms ? ", stretched to --step-ms" : "");
    print_stdout("link {}, latency {:g} us{}\n\n", options.link, options.latency_us,
                 processes > 1 ? fmt::format(", {:.1f} ms of a process' time for each MiB sent",
                                             rank.host_seconds * (1 << 20) * 1e3)
                               : "");
    if (recipe.train.mesh.tp > 1) {
        print_stdout("{} processes share a copy of the model; each has a part of it (train.mesh.tp)\n\n",
                     recipe.train.mesh.tp);
    }
    if (recipe.train.mesh.pp > 1) {
        print_stdout(
            "a copy of the model has {} stages (train.mesh.pp); here each process has all of it, with the samples "
            "of a copy, so with a batch {} times as large\n\n",
            recipe.train.mesh.pp, recipe.train.mesh.pp);
    }
    Table times;
    for (const char* title :
         {"ranks", "shard", "step ms", "efficiency", "communication ms", "exposed ms", "host ms", "sent MiB"}) {
        times.column(title);
    }
    Table memory;
    for (const char* title :
         {"ranks", "shard", "MiB a rank", "weights", "gradients", "optimizer", "average", "buffers", "activations"}) {
        memory.column(title);
    }
    std::set<std::string> left_out;
    bool update_divided = false;
    for (const auto& [how, cost, of] : rows) {
        // The row before it with the same ranks and train.shard = "none".
        const auto whole = std::ranges::find(rows, how.ranks, [](const Row& row) { return row.how.ranks; });
        const bool pays = of.sum() < whole->memory.sum() || cost.step() < whole->cost.step();
        if (!pays && how.shard != Shard::none && shard_name(how) != recipe.train.shard) {
            left_out.insert(shard_name(how));
            continue;
        }
        update_divided |= cost.efficiency() > 1;
        times.row({fmt::to_string(how.ranks), shard_name(how), ms(cost.step()),
                   fmt::format("{:.1f} %", 100 * cost.efficiency()), ms(cost.communication), ms(cost.exposed),
                   ms(cost.host), mib(static_cast<std::int64_t>(cost.sent))});
        memory.row({fmt::to_string(how.ranks), shard_name(how), mib(of.sum()), mib(of.parameters), mib(of.gradients),
                    mib(of.optimizer), mib(of.average), mib(of.buffers), mib(of.activations)});
    }
    print_lines(times.text() + "\n");
    if (update_divided) {
        print_stdout("above 100 %: train.shard also divides the update, so a step is shorter than one process' own.\n");
    }
    print_stdout(
        "exposed: communication that the backward pass does not hide. host: how much longer the passes take, because "
        "sending needs the same cores.\n\n");
    print_lines(memory.text());
    if (!left_out.empty()) {
        print_stdout("\nLeft out where it saves neither memory nor time: train.shard = \"{}\".\n",
                     fmt::join(left_out, "\", \""));
    }
    if (const int ranks = rows.front().how.ranks; rows.back().how.ranks > ranks) {
        print_stdout("\nMore ranks than {}: each with as many samples, so with a larger batch.\n", ranks);
    }
}

std::vector<std::string> stage_texts(const MeasuredRank& rank, const PipelineCost& cost) {
    const StagePartition partition{.blocks = rank.block_names, .seconds = {}, .firsts = cost.firsts};
    std::vector<std::string> texts;
    for (std::size_t stage = 0; stage < partition.firsts.size(); ++stage) {
        texts.push_back(partition.blocks_text(stage));
    }
    return texts;
}

void print_pipelines(const MeasuredRank& rank, const std::vector<PipelineRow>& rows, int ranks) {
    if (rows.empty()) {
        return;
    }
    print_stdout(
        "\n{} processes with a model that is divided into pp stages (train.mesh.pp), activations in each order of "
        "the passes (train.pipeline):\n",
        ranks);
    Table table;
    for (const char* title : {"pp", "dp", "micro-batches", "step ms", "efficiency", "bubble", "sent MiB", "weights MiB",
                              "1f1b MiB", "gpipe MiB"}) {
        table.column(title);
    }
    for (const auto& [shape, cost] : rows) {
        table.row({fmt::to_string(shape.stages), fmt::to_string(shape.copies), fmt::to_string(shape.micro_batches),
                   ms(cost.step), fmt::format("{:.1f} %", 100 * cost.efficiency),
                   fmt::format("{:.1f} %", 100 * cost.bubble), mib(static_cast<std::int64_t>(cost.messages)),
                   mib(cost.most(&StageMemory::parameters)), mib(cost.most(&StageMemory::activations_1f1b)),
                   mib(cost.most(&StageMemory::activations_gpipe))});
    }
    print_lines(table.text());
    for (const auto& [shape, cost] : rows) {
        print_stdout("{} stages: {}\n", shape.stages, fmt::join(stage_texts(rank, cost), " | "));
        if (shape.micro_batches < shape.stages) {
            print_stdout("    the bubble is large: with train.accumulate = {} it is {:.0f} %\n", 4 * shape.stages,
                         100 * bubble_share(shape.stages, 4 * shape.stages));
        }
    }
}

Json pipelines_json(const MeasuredRank& rank, const std::vector<PipelineRow>& rows) {
    Json all = Json::array();
    for (const auto& [shape, cost] : rows) {
        all.push_back({{"pp", shape.stages},
                       {"dp", shape.copies},
                       {"micro_batches", shape.micro_batches},
                       {"step_seconds", cost.step},
                       {"efficiency", cost.efficiency},
                       {"bubble", cost.bubble},
                       {"message_bytes", cost.messages},
                       {"message_seconds", cost.message_seconds},
                       {"parameters", cost.most(&StageMemory::parameters)},
                       {"activations",
                        {{"1f1b", cost.most(&StageMemory::activations_1f1b)},
                         {"gpipe", cost.most(&StageMemory::activations_gpipe)}}},
                       {"stages", stage_texts(rank, cost)}});
    }
    return all;
}

Json json_of(const Recipe& recipe, const MeasuredRank& rank, const std::vector<Row>& rows,
             const std::vector<PipelineRow>& pipelines, const Link& link, double nominal, int processes) {
    Json plans = Json::array();
    for (const auto& [how, cost, of] : rows) {
        plans.push_back({{"ranks", how.ranks},
                         {"tp", how.tensor},
                         {"shard", shard_name(how)},
                         {"step_seconds", cost.step()},
                         {"efficiency", cost.efficiency()},
                         {"communication_seconds", cost.communication},
                         {"exposed_seconds", cost.exposed},
                         {"host_seconds", cost.host},
                         {"sent_bytes", cost.sent},
                         {"memory",
                          {{"bytes", of.sum()},
                           {"parameters", of.parameters},
                           {"gradients", of.gradients},
                           {"optimizer", of.optimizer},
                           {"average", of.average},
                           {"buffers", of.buffers},
                           {"activations", of.activations}}}});
    }
    return {{"recipe", recipe.name},
            {"parameters", rank.parameters},
            {"samples_per_rank", rank.samples},
            {"device", rank.device},
            {"threads", rank.threads},
            {"processes", processes},
            {"link",
             {{"bytes_per_second", nominal},
              {"payload_share", link.bytes_per_second / nominal},
              {"latency_seconds", link.latency},
              {"host_seconds_per_byte", link.host}}},
            {"one_process",
             {{"forward_seconds", rank.step.forward},
              {"backward_seconds", rank.step.backward},
              {"update_seconds", rank.step.update},
              {"micro_batches", rank.step.micro_batches},
              {"step_seconds", rank.step.compute()}}},
            {"plans", std::move(plans)},
            {"pipelines", pipelines_json(rank, pipelines)}};
}

int run(const PlanArguments& options, const std::shared_ptr<Group>& group) {
    Link link{.bytes_per_second = link_speed(options.link), .latency = options.latency_us / 1e6};
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const int ranks = ranks_of(options, recipe.train.mesh, group->size());
    const std::atomic<int>& stop = catch_signals();
    MeasuredRank rank =
        measure_rank_step(recipe, {.ranks = ranks, .stop = [&stop] { return stop.load() != 0; }, .group = group});
    if (stop.load() != 0) {
        return 128 + stop.load();
    }
    if (!group->first()) {
        return 0;
    }
    if (options.step_ms) {
        scale_to(rank, *options.step_ms / 1e3);
    }
    const double nominal = link.bytes_per_second;
    link.host = rank.host_seconds;
    link.bytes_per_second *= rank.device == "cpu" ? kTcpShare : 1;
    const std::vector<Row> rows = predict(rank, ranks, link, recipe);
    const std::vector<PipelineRow> pipelines = predict_pipelines(rank, ranks, link, recipe);
    if (options.json) {
        print_document(json_of(recipe, rank, rows, pipelines, link, nominal, group->size()));
    } else {
        print_plan(recipe, rank, rows, options, group->size());
        print_pipelines(rank, pipelines, ranks);
    }
    return 0;
}

}  // namespace

Command add_plan(CLI::App& app) {
    auto options = std::make_shared<PlanArguments>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "data.batch_size=256");
    app.add_option("--ranks", options->ranks,
                   "processes that share the recipe's batch; default: those of train.mesh, or 8")
        ->check(CLI::Range(1, kMostRanks));
    app.add_option("--link", options->link, "speed of each process' link: 400Gb, 100Mb (bits), 25GB (bytes)")
        ->capture_default_str();
    add_number(app, "--latency", options->latency_us, "microseconds from one process to another", 0, 1e6);
    app.add_option("--step-ms", options->step_ms,
                   "milliseconds of a process' step on the device that you plan for; default: measured here")
        ->check(CLI::Range(1e-3, 1e7));
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the tables");
    example(
        app,
        "  stoker plan recipes/digits.toml --ranks 8 --link 100Gb\n"
        "  stoker plan imagenet.toml --ranks 64 --link 400Gb --step-ms 180\n"
        "Measures one process' share of a step here, then computes for --ranks processes, and for those of 8, 64,\n"
        "512 and 4096 that are more, how long a step takes, how much of the communication the backward pass hides,\n"
        "and the memory of a process, with each train.shard, and for --ranks with a model that is divided into stages\n"
        "(docs/scaling.md).\n"
        "  stoker launch --nproc-per-node 2 -- stoker plan recipes/digits.toml --ranks 8\n"
        "measures two processes at once, where a host has two that share its cores.");
    return
        [options] { return run_in_group([&](const std::shared_ptr<Group>& group) { return run(*options, group); }); };
}

}  // namespace stoker::cli
