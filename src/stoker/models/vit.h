// ViT-S/16 (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020, with the sizes of DeiT-S) with the structure,
// the initialisation and the state-dict names of torchvision's VisionTransformer.
#pragma once

#include <string>
#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class VisionTransformer final : public Model {
  public:
    // Throws InvalidArgument if a side of the image is not a multiple of kPatch.
    VisionTransformer(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes,
                      at::Generator& generator);

    // Throws InvalidArgument for images of another size: each patch has its own position embedding.
    at::Tensor forward(const at::Tensor& input) override;
    bool casts_input() const override { return true; }
    bool wants_channels_last() const override { return true; }  // for the patch embedding
    bool can_recompute() const override { return true; }
    // The attention heads and the inner layer of the MLPs.
    std::vector<DividedParameter> division(int ranks) const override;
    // The patch embedding, the encoder's blocks and the head.
    std::vector<ModelBlock> blocks() const override;

    static constexpr std::int64_t kPatch = 16;
    static constexpr std::int64_t kLayers = 12;
    static constexpr std::int64_t kHidden = 384;
    static constexpr std::int64_t kHeads = 6;
    static constexpr std::int64_t kMlp = 1536;

  private:
    struct Affine {
        at::Tensor weight;
        at::Tensor bias;
    };
    struct Block {
        Affine norm_1;
        Affine in_projection;   // (3 * kHidden, kHidden): queries, keys, values
        Affine out_projection;  // (kHidden, kHidden)
        Affine norm_2;
        Affine mlp_in;   // (kMlp, kHidden)
        Affine mlp_out;  // (kHidden, kMlp)
        std::vector<at::Tensor> parameters() const;
    };

    Affine layer_norm(const std::string& name);
    Block make_block(const std::string& name, at::Generator& generator);
    at::Tensor attention(const Block& block, const at::Tensor& x) const;
    at::Tensor embed(const at::Tensor& input) const;
    at::Tensor run(const Block& block, const at::Tensor& x) const;
    at::Tensor recomputed(const Block& block, const at::Tensor& x) const;  // with gradient checkpointing
    at::Tensor classify(const at::Tensor& x) const;
    at::Tensor block_input(const at::Tensor& x) const;  // of a divided layer

    std::int64_t height_;
    std::int64_t width_;
    at::Tensor class_token_;  // (1, 1, kHidden)
    Affine patches_;          // (kHidden, channels, kPatch, kPatch)
    at::Tensor positions_;    // (1, 1 + patches, kHidden)
    std::vector<Block> blocks_;
    Affine norm_;
    Affine head_;  // (classes, kHidden)
};

}  // namespace stoker
