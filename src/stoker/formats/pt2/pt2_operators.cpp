// The list: the ATen operators that torch.export writes for forward passes, their gradients and torch.nn's losses.
// Left out: aten::from_file (maps a file, also for writing), set_ and resize_ (change what memory a tensor uses),
// _reshape_alias (does not check bounds), and operators that such graphs do not have (sparse, quantized, _foreach).
#include "stoker/formats/pt2/pt2_operators.h"

#include <algorithm>
#include <unordered_set>

namespace stoker {
namespace {

// Names without the underscore of the in-place form.
constexpr std::string_view kAten =
    "__lshift__ __rshift__ _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d "
    "_adaptive_avg_pool3d_backward _aminmax _assert_scalar _assert_tensor_metadata _cdist_backward _cdist_forward "
    "_cholesky_solve_helper _conj _conj_physical _convolution _ctc_loss _ctc_loss_backward _cudnn_ctc_loss "
    "_cudnn_rnn _cudnn_rnn_backward _efficientzerotensor _fft_c2c _fft_c2r _fft_r2c _functional_assert_scalar "
    "_fused_rms_norm _fused_rms_norm_backward _index_put_impl _is_all_true _is_any_true _linalg_check_errors "
    "_linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _log_softmax "
    "_log_softmax_backward_data _logcumsumexp _masked_softmax _masked_softmax_backward _native_batch_norm_legit "
    "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training "
    "_neg_view _pdist_backward _pdist_forward _prelu_kernel _prelu_kernel_backward _safe_softmax "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward _softmax "
    "_softmax_backward_data _stack _thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell "
    "_thnn_fused_lstm_cell_backward_impl _to_copy "
    "_trilinear _unique2 _unsafe_index _unsafe_index_put _unsafe_view _upsample_bicubic2d_aa "
    "_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward "
    "_upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d "
    "_upsample_nearest_exact2d_backward _upsample_nearest_exact3d _upsample_nearest_exact3d_backward _weight_norm "
    "_weight_norm_interface _weight_norm_interface_backward abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d "
    "adaptive_max_pool3d_backward add addbmm addcdiv addcmul addmm addmv addr adjoint affine_grid_generator alias "
    "all amax amin aminmax angle any arange argmax argmin as_strided as_strided_scatter asin asinh atan atan2 "
    "atanh avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm batch_norm "
    "batch_norm_backward bernoulli binary_cross_entropy binary_cross_entropy_backward "
    "binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or "
    "bitwise_right_shift bitwise_xor blackman_window block_diag bmm bucketize cat ceil celu channel_shuffle "
    "cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clone col2im complex conj_physical "
    "constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "convolution convolution_backward copy copysign cos cosh cosine_similarity count_nonzero cross_entropy_loss "
    "cudnn_batch_norm cudnn_batch_norm_backward cummax cummin cumprod cumsum deg2rad detach diag_embed diagonal "
    "diagonal_backward diagonal_scatter digamma dist div dot dropout einsum elu elu_backward embedding "
    "embedding_dense_backward empty empty_like empty_permuted empty_strided eq erf erfc erfinv exp exp2 expand "
    "expand_as expm1 exponential eye fft_fftfreq fft_rfftfreq fill flatten flip float_power floor floor_divide "
    "fmax fmin fmod frac fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d "
    "fractional_max_pool3d_backward frexp full full_like gather ge gelu gelu_backward glu glu_backward "
    "grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward group_norm gt "
    "hamming_window hann_window hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward hardswish "
    "hardswish_backward hardtanh hardtanh_backward heaviside histc histogram huber_loss huber_loss_backward hypot "
    "i0 igamma igammac im2col index index_add index_copy index_fill index_put index_reduce index_select "
    "instance_norm isfinite isin isinf isnan isneginf isposinf kthvalue layer_norm ldexp le leaky_relu "
    "leaky_relu_backward lerp lgamma lift_fresh lift_fresh_copy linalg__powsum linalg_cholesky_ex linalg_cross "
    "linalg_eig linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq "
    "linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular "
    "linalg_vector_norm linear linspace log log10 log1p log2 log_sigmoid_backward log_sigmoid_forward log_softmax "
    "logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logit_backward "
    "logspace logsumexp lt lu_unpack mH mT masked_fill masked_scatter masked_scatter_backward masked_select matmul "
    "matrix_H max max_pool1d max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d "
    "max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d max_unpool3d maximum mean median min "
    "minimum mish mish_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward mm mode movedim mse_loss "
    "mse_loss_backward mul multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_backward "
    "multilabel_margin_loss_forward multinomial mv mvlgamma nan_to_num nanmedian nansum narrow native_batch_norm "
    "native_batch_norm_backward native_channel_shuffle native_dropout native_dropout_backward native_group_norm "
    "native_group_norm_backward native_layer_norm native_layer_norm_backward ne neg new_empty new_empty_strided "
    "new_full new_ones new_zeros nextafter nll_loss2d_backward nll_loss2d_forward nll_loss_backward "
    "nll_loss_forward nonzero norm normal normal_functional numpy_T one_hot ones ones_like outer pad "
    "pairwise_distance permute pixel_shuffle pixel_unshuffle poisson polar polygamma pow prod put rad2deg rand "
    "rand_like randint randint_like randn randn_like randperm range reciprocal reflection_pad1d "
    "reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d "
    "reflection_pad3d_backward relu relu6 remainder renorm repeat repeat_interleave replication_pad1d "
    "replication_pad1d_backward replication_pad2d replication_pad2d_backward replication_pad3d "
    "replication_pad3d_backward reshape rms_norm roll rot90 round rrelu_with_noise rrelu_with_noise_backward "
    "rrelu_with_noise_functional rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add "
    "scatter_reduce searchsorted select select_backward select_scatter selu sgn sigmoid sigmoid_backward sign "
    "signbit silu silu_backward sin sinc sinh slice slice_backward slice_scatter smooth_l1_loss "
    "smooth_l1_loss_backward soft_margin_loss soft_margin_loss_backward softmax softplus softplus_backward "
    "softshrink softshrink_backward sort special_entr special_erfcx special_i0e special_i1 special_i1e "
    "special_ndtri special_xlog1py special_zeta split split_with_sizes sqrt square squeeze stack std std_mean sub "
    "sum swapaxes sym_constrain_range sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size "
    "sym_storage_offset sym_stride t take tan tanh tanh_backward tensor_split threshold threshold_backward to topk "
    "trace transpose triangular_solve tril tril_indices triu triu_indices trunc type_as unbind unflatten unfold "
    "unfold_backward uniform unique_consecutive unique_dim unique_dim_consecutive unsqueeze upsample_bicubic2d "
    "upsample_bicubic2d_backward upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d "
    "upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d "
    "upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d "
    "upsample_trilinear3d_backward var var_mean vdot view view_as view_as_complex view_as_real where xlogy zero "
    "zeros zeros_like";

// Arithmetic on sizes.
constexpr std::string_view kPython =
    "_operator.add _operator.and_ _operator.eq _operator.floordiv _operator.ge _operator.gt _operator.le _operator.lt "
    "_operator.mod _operator.mul _operator.ne _operator.neg _operator.pow _operator.sub _operator.truediv math.trunc "
    "torch._sym_sqrt torch.sym_float torch.sym_int torch.sym_ite torch.sym_max torch.sym_min torch.sym_not";

using Names = std::unordered_set<std::string_view>;

Names split(std::string_view text) {
    Names names;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        names.insert(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return names;
}

// The name of an overload: "Tensor", "default".
bool is_identifier(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    });
}

}  // namespace

bool is_plain_operator(std::string_view target) {
    static const Names aten = split(kAten);
    static const Names python = split(kPython);
    constexpr std::string_view kPrefix = "torch.ops.aten.";
    if (!target.starts_with(kPrefix)) {
        return python.contains(target);
    }
    target.remove_prefix(kPrefix.size());
    const std::size_t dot = target.find('.');
    if (dot == std::string_view::npos || !is_identifier(target.substr(dot + 1))) {
        return false;
    }
    const std::string_view name = target.substr(0, dot);
    return aten.contains(name) || (name.ends_with('_') && aten.contains(name.substr(0, name.size() - 1)));
}

}  // namespace stoker
