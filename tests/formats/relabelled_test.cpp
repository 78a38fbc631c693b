// match_classes against the names: the same name has the same label, whatever the order.
#include "stoker/formats/relabelled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sample i has label i - 1, so the first has none, and the last `beyond` are outside the data's classes.
class Labels final : public Dataset {
  public:
    explicit Labels(std::vector<std::string> classes, std::int64_t beyond = 0)
        : classes_(std::move(classes)), size_(std::ssize(classes_) + 1 + beyond) {}
    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override { sample.label = index - 1; }
    std::optional<std::int64_t> label(std::int64_t index) const override { return index - 1; }
    std::span<const std::string> classes() const override { return classes_; }
    std::string path() const override { return "here"; }

  private:
    std::vector<std::string> classes_;
    std::int64_t size_;
};

const std::vector<std::string> kTrained = {"ash", "beech", "cedar", "date"};

std::shared_ptr<const Dataset> matched(std::vector<std::string> classes, std::int64_t beyond = 0) {
    return match_classes(kTrained, "train", std::make_shared<Labels>(std::move(classes), beyond));
}

TEST(MatchClasses, ClassesWithoutSamplesAreNamed) {
    EXPECT_EQ(matched(kTrained)->advice(), "");
    EXPECT_EQ(matched({"ash", "beech", "cedar"})->advice(), "no samples of one class: \"date\"");
    EXPECT_EQ(matched({"date", "beech"})->advice(), "no samples of 2 classes: \"ash\", \"cedar\"");
    EXPECT_EQ(matched({"ash", "beech"})->label(2), 1);
}

TEST(MatchClasses, ByName) {
    for (const std::vector<std::string>& classes :
         {kTrained, {"ash", "beech"}, {"beech"}, {"ash", "cedar"}, {"date", "cedar", "beech", "ash"}}) {
        const auto dataset = matched(classes);
        Sample sample;
        dataset->read(0, sample);
        EXPECT_EQ(sample.label, -1);
        EXPECT_EQ(dataset->label(0), -1);
        for (std::size_t i = 0; i < classes.size(); ++i) {
            dataset->read(static_cast<std::int64_t>(i) + 1, sample);
            EXPECT_EQ(kTrained[static_cast<std::size_t>(sample.label)], classes[i]);
            EXPECT_EQ(dataset->label(static_cast<std::int64_t>(i) + 1), sample.label);
            EXPECT_EQ(dataset->classes()[static_cast<std::size_t>(sample.label)], classes[i]);
        }
    }
}

TEST(MatchClasses, TheSameClassesNeedNoMap) {
    const auto dataset = std::make_shared<Labels>(kTrained);
    EXPECT_EQ(match_classes(kTrained, "train", dataset), dataset);
    const std::vector<std::string> twice = {"crane", "dove", "crane"};
    const auto first =
        match_classes(twice, "train", std::make_shared<Labels>(std::vector<std::string>{"crane", "dove"}));
    EXPECT_EQ(first->label(2), 1) << "the first classes in order need no names";
    const auto unnamed = std::make_shared<Labels>(std::vector<std::string>());
    EXPECT_EQ(match_classes(kTrained, "train", unnamed), unnamed);
}

TEST(MatchClasses, ALabelBeyondTheClassesIsABadSample) {
    const auto dataset = matched({"cedar", "ash"}, 1);
    Sample sample;
    EXPECT_THROW(dataset->read(3, sample), DataError);
    EXPECT_EQ(dataset->label(3), std::ssize(kTrained)) << "out of range";
}

// Boxes with numbers of the classes, and a field with separate names.
class Boxes final : public Dataset {
  public:
    Boxes(std::vector<std::string> classes, std::vector<std::string> colours, bool named = true)
        : classes_(std::move(classes)) {
        fields_ = {{.name = "boxes", .kind = FieldKind::boxes, .shape = {-1, 4}},
                   {.name = "labels", .kind = FieldKind::label, .dtype = DType::int64, .shape = {-1}},
                   {.name = "colour", .kind = FieldKind::label, .dtype = DType::int64}};
        if (named) {
            fields_[1].classes = classes_;
            fields_[2].classes = std::move(colours);
        }
    }
    std::int64_t size() const override { return 1; }
    void read(std::int64_t /*index*/, Sample& sample) const override {
        sample.field(1).copy_elements(std::array<std::int64_t, 3>{1, 0, -1});
        sample.field(2).copy_elements(std::array<std::int64_t, 1>{1});
    }
    std::span<const Field> fields() const override { return fields_; }
    std::span<const std::string> classes() const override { return classes_; }
    std::string path() const override { return "here"; }

  private:
    std::vector<std::string> classes_;
    std::vector<Field> fields_;
};

std::vector<std::int64_t> elements_of(Sample& sample, std::size_t field) {
    const std::span<const std::byte> bytes = sample.field(field).bytes;
    std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

TEST(MatchClasses, FieldsWithNamesFollow) {
    const Boxes train(kTrained, {"blue", "green", "red"});
    const auto val =
        std::make_shared<Boxes>(std::vector<std::string>{"ash", "cedar"}, std::vector<std::string>{"blue", "red"});
    const auto matching = match_classes(train.classes(), "train", val, train.fields());
    Sample sample;
    matching->read(0, sample);
    EXPECT_EQ(elements_of(sample, 1), (std::vector<std::int64_t>{2, 0, -1})) << "ash and cedar";
    EXPECT_EQ(elements_of(sample, 2), (std::vector<std::int64_t>{2})) << "red";
    EXPECT_EQ(matching->fields()[2].classes, train.fields()[2].classes);
    const auto other = std::make_shared<Boxes>(kTrained, std::vector<std::string>{"black"});
    EXPECT_THROW(match_classes(train.classes(), "train", other, train.fields()), InvalidArgument);
    const auto packed =
        std::make_shared<Boxes>(std::vector<std::string>{"ash", "cedar"}, std::vector<std::string>(), false);
    EXPECT_THROW(match_classes(train.classes(), "train", packed, train.fields()), InvalidArgument)
        << "numbers without names";
}

std::string refusal(std::span<const std::string> classes, std::vector<std::string> own) {
    try {
        match_classes(classes, "train", std::make_shared<Labels>(std::move(own)));
        return "";
    } catch (const InvalidArgument& error) {
        return error.what();
    }
}

TEST(MatchClasses, UnknownClassesAreNamed) {
    EXPECT_THAT(refusal(kTrained, {"ash", "oak", "elm"}),
                AllOf(HasSubstr("[here]"), HasSubstr("the 4 of train: \"ash\", \"beech\""),
                      HasSubstr("got 2 others: \"oak\", \"elm\"")));
    EXPECT_THAT(refusal({}, {"ash"}), HasSubstr("data without class names, as in train"));
    const std::vector<std::string> twice = {"ash", "oak", "ash"};
    EXPECT_THAT(refusal(twice, {"oak"}), HasSubstr("got \"ash\" twice"));
}

}  // namespace
}  // namespace stoker
