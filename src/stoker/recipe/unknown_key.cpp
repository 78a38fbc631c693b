// A name of another library is looked up first, then near names in the same table, then names in the other tables.
#include "stoker/recipe/unknown_key.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/suggest.h"
#include "stoker/recipe/schema.h"

namespace stoker {
namespace {

// The names of PyTorch, Lightning, Keras, timm and Hugging Face for a key, if they are not near the key's own name.
struct Alias {
    std::string_view name;
    std::string_view key;
};
constexpr std::array kAliases = {
    Alias{"accelerator", "device"},
    Alias{"accumulate_grad_batches", "train.accumulate"},
    Alias{"amp", "train.precision"},
    Alias{"arch", "model.name"},
    Alias{"augmentations", "data.train_ops"},
    Alias{"betas", "optimizer.beta1"},
    Alias{"bs", "data.batch_size"},
    Alias{"dataset", "data.train"},
    Alias{"ema_decay", "train.ema"},
    Alias{"epsilon", "optimizer.eps"},
    Alias{"eta_min", "schedule.end_factor"},
    Alias{"grad_accum_steps", "train.accumulate"},
    Alias{"grad_clip", "train.clip_norm"},
    Alias{"gradient_accumulation_steps", "train.accumulate"},
    Alias{"gradient_clip_val", "train.clip_norm"},
    Alias{"learning_rate", "optimizer.lr"},
    Alias{"lr_scheduler", "schedule.name"},
    Alias{"max_epochs", "train.epochs"},
    Alias{"max_grad_norm", "train.clip_norm"},
    Alias{"max_lr", "optimizer.lr"},
    Alias{"mixed_precision", "train.precision"},
    Alias{"n_epochs", "train.epochs"},
    Alias{"num_classes", "model.classes"},
    Alias{"num_epochs", "train.epochs"},
    Alias{"num_workers", "data.workers"},
    Alias{"pretrained", "model.weights"},
    Alias{"transform", "data.train_ops"},
    Alias{"transforms", "data.train_ops"},
    Alias{"validation_split", "data.val"},
    Alias{"val_split", "data.val"},
    Alias{"warmup_epochs", "schedule.warmup"},
    Alias{"warmup_steps", "schedule.warmup"},
    Alias{"wd", "optimizer.weight_decay"},
};

// Elsewhere they mean early stopping, which Stoker does not have.
constexpr std::array<std::string_view, 5> kEarlyStopping = {"patience", "early_stop", "early_stopping",
                                                            "early_stopping_patience", "min_delta"};

// Keys of other tables with shorter names must match exactly: "step" is not a mistyped model.stem.
constexpr std::size_t kShortestNearElsewhere = 6;

// The keys that may be meant, with their tables. Several if a name is in several other tables.
std::vector<std::string> likely_keys(std::string_view table, std::string_view name) {
    if (const auto* alias = std::ranges::find(kAliases, name, &Alias::name); alias != kAliases.end()) {
        return {std::string(alias->key)};
    }
    if (const std::string near = nearest_name(name, names_in_table(table)); !near.empty()) {
        return {table.empty() ? near : fmt::format("{}.{}", table, near)};
    }
    std::vector<std::string> leaves;
    for (const SchemaKey& key : recipe_schema()) {
        if (key.leaf() == name || key.leaf().size() >= kShortestNearElsewhere) {
            leaves.emplace_back(key.leaf());
        }
    }
    const std::string leaf = nearest_name(name, leaves);
    std::vector<std::string> found;
    for (const SchemaKey& key : recipe_schema()) {
        if (!leaf.empty() && key.leaf() == leaf) {
            found.push_back(key.name);
        }
    }
    return found;
}

}  // namespace

std::vector<std::string> names_in_table(std::string_view table) {
    std::vector<std::string> names;
    const std::string prefix = table.empty() ? "" : fmt::format("{}.", table);
    for (const SchemaKey& key : recipe_schema()) {
        if (!key.name.starts_with(prefix)) {
            continue;
        }
        const std::string_view rest = std::string_view(key.name).substr(prefix.size());
        const std::string_view name = rest.substr(0, rest.find('.'));
        if (names.empty() || names.back() != name) {
            names.emplace_back(name);
        }
    }
    return names;
}

std::string unknown_key_hint(std::string_view table, std::string_view name, bool dotted) {
    if (std::ranges::find(kEarlyStopping, name) != kEarlyStopping.end()) {
        return "a run does not stop early; schedule.patience is for the schedule plateau";
    }
    std::vector<std::string> meant = likely_keys(table, name);
    for (std::string& key : meant) {
        if (!dotted && !table.empty() && key.starts_with(fmt::format("{}.", table))) {
            key.erase(0, table.size() + 1);
        }
    }
    if (!meant.empty()) {
        return fmt::format("did you mean \"{}\"?", fmt::join(meant, "\" or \""));
    }
    const std::vector<std::string> known = names_in_table(table);
    return fmt::format("known{}: {}", table.empty() || known.empty() ? "" : fmt::format(" in {}", table),
                       fmt::join(known.empty() ? names_in_table("") : known, ", "));
}

}  // namespace stoker
