cd /try
stoker synth photos photos --count 48
stoker inspect photos
stoker pack photos photos.stk --codec dct
python - <<'RUN'
import stoker

for images in stoker.Loader("photos.stk", 16, ops=[stoker.transforms.RandomResizedCrop(64)], as_tuple=True):
    print(images[0])
RUN
