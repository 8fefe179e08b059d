// Whether two samples differ by more than chance, as the probability of so great a difference without any.

// Abramowitz and Stegun 7.1.26 is good to 1.5e-7, which suffices for a p that is compared with 0.01.
function normalTail(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const poly =
    t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return poly * Math.exp(-x * x); // both tails
}

// Mann and Whitney's U, two-sided, with the correction for ties.
export function mannWhitney(a, b) {
  const all = [...a.map((value) => ({value, own: true})), ...b.map((value) => ({value, own: false}))];
  all.sort((x, y) => x.value - y.value);
  const n = all.length;
  let ranks = 0;
  let ties = 0;
  for (let i = 0; i < n; ) {
    let end = i;
    while (end < n && all[end].value === all[i].value) ++end;
    const rank = (i + 1 + end) / 2;
    for (let k = i; k < end; ++k) if (all[k].own) ranks += rank;
    ties += (end - i) ** 3 - (end - i);
    i = end;
  }
  const u = ranks - (a.length * (a.length + 1)) / 2;
  const mean = (a.length * b.length) / 2;
  const variance = ((a.length * b.length) / 12) * (n + 1 - ties / (n * (n - 1)));
  return variance > 0 ? normalTail((u - mean) / Math.sqrt(variance)) : 1;
}

// Whether a share of `of` draws, `hits`, may come from the chance `expected`; two-sided.
export const binomial = (hits, of, expected) =>
  of === 0 ? 1 : normalTail((hits - of * expected) / Math.sqrt(of * expected * (1 - expected)));

// Whether the two shares are of one chance.
export function twoShares(hitsA, ofA, hitsB, ofB) {
  const pooled = (hitsA + hitsB) / (ofA + ofB);
  const deviation = Math.sqrt(pooled * (1 - pooled) * (1 / ofA + 1 / ofB));
  return deviation > 0 ? normalTail((hitsA / ofA - hitsB / ofB) / deviation) : 1;
}
