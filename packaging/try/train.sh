cd /try
cat >recipe.toml <<'RUN'
[data]
train = "photos"
val = "20%"
batch_size = 8
train_ops = [{op = "random_resized_crop", size = 64}, {op = "horizontal_flip"}]
val_ops = [{op = "resize", size = 72}, {op = "center_crop", size = 64}]

[model]
name = "resnet18"

[optimizer]
name = "sgd"
lr = 0.01

[train]
epochs = 2
RUN
stoker train recipe.toml --out run
stoker diagnose run
stoker doctor
