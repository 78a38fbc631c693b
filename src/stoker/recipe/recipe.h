// A recipe: everything about a run in one TOML file, checked before any work. A key has a member here, an entry in
// schema.cpp and a row in docs/recipe.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {

struct OpSpec;
using OptionValue = std::variant<bool, double, std::string, std::vector<double>, std::vector<OpSpec>>;

// One entry of train_ops or val_ops: {op = "resize", size = 256}.
struct OpSpec {
    std::string name;
    std::map<std::string, OptionValue> options = {};  // without "op"
    std::string where = {};                           // "recipes/x.toml:12: data.train_ops[0]", for messages
};

// The budget of bad samples in an epoch, over all ranks: a number, or a percentage of the epoch's samples.
struct BadSamples {
    std::int64_t count = 0;
    double percent = 0;  // 0 to 100; if not 0, it replaces `count`, rounded down, but is at least one sample

    std::int64_t of(std::int64_t samples) const {
        constexpr double kRounding = 1e-9;  // so that 0.7 % of 1000 is 7
        const auto share = static_cast<std::int64_t>(static_cast<double>(samples) * percent / 100 + kRounding);
        return percent == 0 ? count : std::max<std::int64_t>(share, 1);
    }
};

// A further field of a sample, [data.fields.NAME] (field_keys.h).
struct FieldRecipe {
    std::string name;
    std::string is = "value";                        // value | label | image | mask | boxes | tokens | bytes
    std::string from = {};                           // its name in the data; empty: `name`
    std::optional<std::int64_t> pad = std::nullopt;  // entries in the batch; empty: any number
    std::vector<std::int64_t> values = {};           // a mask's stored value of each class; empty: they are classes
    std::optional<std::vector<OpSpec>> train_ops = std::nullopt;  // of an image or mask; empty: those of the images
    std::optional<std::vector<OpSpec>> val_ops = std::nullopt;
};

// The names of a sample's fields; empty: one of the usual names.
struct FieldsRecipe {
    std::string image;
    std::string label;
    std::vector<FieldRecipe> more = {};
    bool clips = false;  // no key: as data.frames > 0 opens the data
};

// [data] of a recipe. docs/recipe.md explains the keys.
struct DataRecipe {
    std::string train;               // a data set, as open_dataset takes it
    std::string val;                 // a data set, a share of train such as "10%", or empty: the test split, if any
    std::int64_t batch_size = 64;    // samples per optimiser step over all ranks
    std::optional<int> workers;      // empty: auto
    int prefetch = 3;                // batches in flight beyond the one in use
    bool pin_memory = true;          // page-locked batch memory if a GPU trains
    std::vector<std::string> mix;    // more training sets
    std::vector<double> weights;     // of `train` and of each in `mix`; empty: by size
    bool balance = false;            // every class equally often
    std::int64_t epoch_samples = 0;  // 0: all
    std::optional<std::int64_t> shuffle_window;  // samples; 0: everything; empty: auto
    BadSamples bad_samples = {.percent = 0.1};
    std::string cache = "none";  // none | ram | disk | device
    std::int64_t cache_bytes = std::int64_t{4} << 30;
    std::string cache_dir;             // empty: the user's cache directory
    std::string cache_as = "decoded";  // decoded | encoded
    std::int64_t memory = 0;           // bytes that the process may use; 0: the system's limit
    bool shuffle = true;
    bool drop_last = false;
    bool jpeg_index = true;
    bool exif = false;
    bool first_frame = false;              // of an animation
    std::optional<std::int64_t> channels;  // of image files: 1 or 3; empty: 3
    std::string decode = "exact";          // exact | fast
    std::string decode_on = "auto";        // auto | cpu | device
    std::int64_t frames = 0;               // of each clip or volume; 0: images, or all frames
    std::int64_t stride = 1;               // of neighbouring frames
    std::int64_t clips_per_video = 1;
    std::int64_t sample_rate = 0;  // of sounds, in Hz; 0: not set
    double seconds = 0;            // of each sound; 0: all
    std::int64_t views = 1;        // of each image, each with its own random ops
    std::vector<OpSpec> train_ops;
    std::vector<OpSpec> val_ops;
    std::string bucket_by;          // a field of any length; empty: batches are of any lengths
    std::int64_t batch_tokens = 0;  // entries of bucket_by in a batch, with padding; 0: batch_size holds
    std::int64_t context = 0;       // tokens in a sample of a token stream; 0: not set
    FieldsRecipe fields;
};

// [model] of a recipe.
struct ModelRecipe {
    std::string name = "mlp";                      // mlp | convnet | resnet18/34/50 | vit_s_16 | fcn_resnet50 | r3d_18
    std::string script;                            // a TorchScript file, instead of `name`
    std::string exported;                          // model.export: a .pt2 training graph, instead of `name`
    std::optional<std::int64_t> classes;           // empty: taken from the data
    std::vector<std::int64_t> hidden = {128, 64};  // mlp
    std::string activation = "relu";               // mlp: relu | gelu | tanh
    std::string stem = "auto";                     // resnet: imagenet | cifar | auto (by image size)
    std::string weights;                           // initial weights: safetensors, a checkpoint or a run folder
    std::vector<std::string> freeze = {};          // parameters that are not trained: patterns of names
};

// The learning rate of some parameters, as a factor of the others'.
struct LrScale {
    std::string pattern;  // of names
    double factor = 1;
    bool operator==(const LrScale&) const = default;
};

// [optimizer] of a recipe.
struct OptimizerRecipe {
    std::string name = "adam";  // sgd | adam | adamw
    double lr = 1e-3;           // before schedule and warm-up
    double momentum = 0;        // sgd
    bool nesterov = false;
    double beta1 = 0.9;  // adam, adamw
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
    std::vector<std::string> no_decay =
        {};                               // parameters without weight decay: patterns of names, or "norms_and_biases"
    std::vector<LrScale> lr_scales = {};  // the first pattern that matches a parameter counts
};

// So many epochs or steps.
struct Interval {
    std::int64_t count = 1;
    bool epochs = true;  // else steps
};

// [schedule] of a recipe: the learning rate over the run.
struct ScheduleRecipe {
    std::string name = "constant";              // constant | linear | cosine | step | multi_step | plateau | one_cycle
    Interval warmup = {.count = 0};             // before the schedule; not for one_cycle
    double warmup_factor = 0.01;                // warm-up starts at this share of lr
    double end_factor = 0;                      // linear, cosine: the final share of lr
    double gamma = 0.1;                         // step, multi_step, plateau: factor of each change
    std::int64_t step_size = 30;                // step: epochs between
    std::vector<std::int64_t> milestones = {};  // multi_step: epochs
    std::int64_t patience = 10;                 // plateau: tolerated evaluations without a better validation loss
    double threshold = 1e-4;                    // plateau: relative improvement that counts
    double pct_start = 0.3;                     // one_cycle: share of the steps in which lr rises
    double div_factor = 25;                     // one_cycle: starts at lr / div_factor
    double final_div_factor = 1e4;              // one_cycle: ends at its start / final_div_factor
};

// The weights of the classes in the loss: none, given, or by how rare a class is.
struct ClassWeights {
    bool balanced = false;
    std::vector<double> values = {};
};

// How several processes divide a run: dp copies of the model, each divided into pp stages, and tp processes share each
// stage (dist/mesh.h).
struct MeshRecipe {
    std::optional<std::int64_t> dp;  // empty: as many as the processes make
    std::int64_t pp = 1;
    std::int64_t tp = 1;

    std::int64_t copy() const { return pp * tp; }  // processes of one copy
};

// [train] of a recipe.
struct TrainRecipe {
    std::int64_t epochs = 5;
    std::string precision = "auto";  // auto | fp32 | tf32 | bf16 | fp16
    std::int64_t accumulate = 1;     // micro-batches per batch
    double clip_norm = 0;            // limit for the norm of all gradients together; 0: none
    double clip_value = 0;           // limit for each gradient element; 0: none
    std::string loss = "mse";        // regression: mse | l1 | huber
    double label_smoothing = 0;
    ClassWeights class_weights = {};
    double focal_gamma = 0;  // focal loss; 0: off
    std::optional<std::int64_t>
        ignore_index;           // a class that the loss leaves out; -1: none; empty: 255 in masks, -100 of tokens
    double mixup = 0;           // alpha of the Beta distribution of ratios; 0: off
    double cutmix = 0;          // the same
    double loss_scale = 65536;  // fp16: initial loss scale
    std::int64_t loss_scale_interval = 2000;  // fp16: steps without an overflow before it doubles
    std::string compile = "auto";             // auto | none
    bool gradient_checkpointing = false;      // recomputes activations in the backward pass
    bool sync_batch_norm = false;             // statistics of batch norm over all ranks
    std::string compress_gradients = "none";  // none | bf16 | fp16: as ranks send them
    std::string shard = "none";               // none | optimizer | full: what ranks divide among them
    std::string pipeline = "1f1b";            // 1f1b | gpipe: the order of a stage's passes
    bool stop_at_nan = true;                  // stops at a loss that is not finite
    double ema = 0;                           // decay of the average of the weights; 0: off
    bool channels_last = true;                // for convolutional models
    std::optional<int> threads;               // LibTorch's intra-op threads; empty: auto
    bool data_parallel = false;               // one process with a copy of the model on each GPU, for comparison
    bool deterministic = false;               // the same losses, bit for bit, with as many threads on this machine
    std::int64_t evaluate_every = 1;          // epochs; the last epoch is always evaluated
    Interval checkpoint_every;
    std::string keep_best = {};   // a validation metric, such as "val_loss"; empty: no best checkpoint
    std::int64_t early_stop = 0;  // evaluations without a better one that end the run; 0: off
    MeshRecipe mesh = {};
};

struct Recipe {
    std::uint64_t seed = 0;               // of initial weights, order and random ops
    std::string device = "auto";          // auto | cpu | cuda | cuda:N
    std::string task = "classification";  // or multilabel | regression | segmentation | language | custom
    DataRecipe data;
    ModelRecipe model;
    OptimizerRecipe optimizer;
    ScheduleRecipe schedule;
    TrainRecipe train;
    std::string name;  // file name without ".toml"; the default run folder is runs/<name>
};

// An invalid --set. Programs exit with 2 (wrong usage) for it, and with 1 for an invalid file.
class BadSetting : public InvalidArgument {
    using InvalidArgument::InvalidArgument;
};

// Reads a recipe and applies `sets`, each "key=value" with a dotted key: the value is read by the key's type, and
// unquoted strings are taken literally. Relative data paths are not changed (relative to the working directory). Throws
// IoError for a missing file, InvalidArgument with file, line and key for an unknown key, a wrong type or an impossible
// value, and BadSetting for the same in `sets`.
Recipe read_recipe(const std::string& path, const std::vector<std::string>& sets = {});

// The same from text; messages name `origin` as the path.
Recipe parse_recipe(const std::string& text, const std::string& origin, const std::vector<std::string>& sets = {});

// Checks a recipe that a program has made: the values that are text, such as names, are those that parse_recipe takes.
// Numbers are not checked. Throws InvalidArgument with the key.
void require_known_names(const Recipe& recipe);

// The recipe as TOML with every key, as run folders keep it. parse_recipe reads it back, except for the secrets of URLs
// (stored_url).
std::string recipe_to_toml(const Recipe& recipe);

}  // namespace stoker
