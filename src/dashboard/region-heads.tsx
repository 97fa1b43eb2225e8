import type { RegionColumns } from './region-columns.ts'

const NUMBERS: readonly (readonly [title: string, about: string])[] = [
  ['running', 'Requests of all clients of the region that run or wait there.'],
  ['waiting', 'Requests that wait inside the engine, as it reports.'],
  ['KV use', 'KV cache in use, as the engine reports.'],
  ['hit rate', 'Share of prompt tokens that were cached, decayed mean.'],
  ['prefill queue', 'Predicted time until the queued prompts are computed.'],
  ['TTFT', 'Time to the first token, decayed mean.'],
]

export function RegionHeads({ columns }: { readonly columns: RegionColumns }) {
  return (
    <thead>
      <tr>
        <th scope="col">engine</th>
        {columns.cluster && <th scope="col">cluster there</th>}
        {columns.role && <th scope="col">role</th>}
        <th scope="col">state</th>
        {NUMBERS.map(([title, about]) => (
          <th key={title} scope="col" class="number" title={about}>
            {title}
          </th>
        ))}
        <th scope="col">
          <span class="hidden">drain</span>
        </th>
      </tr>
    </thead>
  )
}
