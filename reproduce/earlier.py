"""What earlier builds came to, by other protocols: shown where an item has not run yet, and never judged."""

EARLIER = {
    ("loreta", "figure-3ab"): "split by date, one seed, mAP at 10K/50K/100K triplets: LORETA-PSD .399/.468/.506 at rank 10, .488/.582/.620 at rank 30, "
    ".492/.555/.584 at rank 100; LORETA .351/.449/.497, .444/.558/.601, .461/.539/.569 (newsgroups.md)",
    ("loreta", "figure-3c"): "split by date, one seed, mAP at 500K triplets, ranks 10/30/100: LORETA .582/.662/.620, PSD .591/.660/.619, PA .474/.595/.594, "
    "PSD gradient .541/.620/.521; OASIS .527 with 1,000 terms and .539 with 2,000, LEGO .269 (newsgroups.md)",
    ("loreta", "gradient"): "split by date, one seed, rank 30, the step chosen: mAP .609 on two factors, .587 on one, .620 with the step .1 (newsgroups.md)",
    ("loreta", "figure-4"): "given splits, one seed, ranks 10/50/100: LORETA with its best start .315/.333/.330 on corel5k, .452/.562/.591 on bibtex, "
    ".276/.300/.303 on delicious; PA .199/.266/.254, .365/.457/.487, .210/.226/.229; perceptron .327, .595, .304 (labels.md)",
    ("fixed_rank", "figure-3b"): "one partition, no penalty: least at rank 5, .112 for balanced and polar; at rank 10 .211 and .152",
    ("fixed_rank", "table-1"): "rank 10, one split: polar .849, balanced .851, MMMF .851 (ratings.md)",
    ("fixed_rank", "table-1-100k"): "ranks 2/5/10, one to four splits: polar .929/.919/.919, balanced .934/.919/.916, MMMF .924/.929/.931 (ratings.md)",
    ("aroma", "figure-3"): "P@10 at 50K triplets: OASIS .390, d-AROMA with r chosen on held-out rows .392 (aroma.md)",
    ("aroma", "figure-4-left"): "split by date, mAP/P@1/P@10 at 500K triplets: OASIS with C = .1 .520/.714/.692, d-AROMA .528/.714/.699, f-AROMA "
    ".530/.722/.702 (aroma.md)",
    ("aroma", "figure-4-middle"): "split by date, P@10 at 10K/50K/100K/500K triplets: OASIS with C = .1 .646/.656/.660/.692, d-AROMA .607/.654/.664/.699, "
    "f-AROMA .613/.659/.671/.702 (aroma.md)",
    ("aroma", "figure-4-right"): "split by date, P@10 at 100K triplets, r = .01/.1/1/10: d-AROMA .662/.662/.664/.644, f-AROMA .663/.678/.671/.647 (aroma.md)",
    ("gossip", "table-3"): "one split, own steps, ranks 3/5/7/9: batch .8789/.8658/.8643/.8662, ten agents .8819/.8771/.8744/.8799 (gossip.md)",
    ("gossip", "table-4"): "one split, own steps, rank 3: School .742, Parkinsons .326 (gossip.md)",
    ("psd", "figure-5"): "one problem, after three passes (planted: 1.713): flat 1.781 with one and 1.773 with 32 samples a step, polar 2.197 and 2.011; "
    "both in batch 1.720",
    ("psd", "figure-6-right"): "five samples, NMI at 50/1,000/5,000 pairs: flat .496/.900/1.000, λ = 0 .799/.899/.900, λ = .5 .799/.983/.997 (kernels.md)",
    ("psd", "figure-7"): "γ = .004, one seed, rank 25, NMI at 1,000/10,000/100,000 pairs: flat .571/.723/1.000, λ = 0 .675/.736/.735, λ = .5 "
    ".676/.851/1.000; kernel PCA .594 (kernels.md)",
    ("psd", "figure-8"): "without LMNN and POLA: iris polar .033, ITML .031; wine flat .031, LEGO .028; ionosphere polar .135, ITML .156; balance_scale polar "
    ".096, ITML .093; soybean flat .068, LEGO .065 (metrics.md)",
    ("psd", "figure-9"): "one seed, ranks 5/10/20/50: flat .130/.080/.069/.058, polar .142/.090/.070/.068, ITML .392/.272/.146/.078, LEGO "
    ".381/.269/.146/.069, principal directions .394/.283/.162/.100 (metrics.md)",
}
