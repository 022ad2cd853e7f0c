import type { Day } from "./skill";

const high = 24;

/** Spark draws the calls of fourteen days as bars; what failed stands in red at their foot. */
export function Spark({ days }: { days: Day[] }) {
  const most = Math.max(1, ...days.map((d) => d.calls));
  const calls = days.reduce((n, d) => n + d.calls, 0);
  const failed = days.reduce((n, d) => n + d.failed, 0);
  const label = `${calls} calls in ${days.length} days, ${failed} failed`;
  return (
    <svg class="spark" width={days.length * 8} height={high} role="img" aria-label={label}>
      <title>{label}</title>
      {days.map((d, i) => {
        const h = d.calls ? Math.max(3, (d.calls / most) * (most < 3 ? 10 : 22)) : 1.5;
        const f = d.failed ? Math.min(h, Math.max(4, (d.failed / d.calls) * h)) : 0;
        return (
          <g key={d.day}>
            <rect x={i * 8} y={high - h} width={6} height={h} rx={1} fill="var(--tool)" />
            {f > 0 && <rect x={i * 8} y={high - f} width={6} height={f} rx={1} fill="var(--failed)" />}
          </g>
        );
      })}
    </svg>
  );
}
