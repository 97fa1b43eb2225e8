import type { Column, Selection } from './engine-selection.ts'
import { isShown, type ShownColumns } from './shown-columns.ts'

const HEADS: readonly (readonly [column: Column, title: string, isNumber: boolean])[] = [
  ['engine', 'engine', false],
  ['cluster', 'cluster', false],
  ['role', 'role', false],
  ['state', 'state', false],
  ['running', 'running', true],
  ['blocks', 'active blocks', true],
  ['queue', 'prefill queue', true],
  ['waiting', 'waiting', true],
  ['kv', 'KV use', true],
  ['hits', 'hit rate', true],
  ['ttft', 'TTFT', true],
  ['error', 'prediction error', true],
  ['requests', 'requests', true],
  ['failures', 'failures', true],
]

export function EngineHeads({
  selection,
  shown,
  onSort,
}: {
  readonly selection: Selection
  readonly shown: ShownColumns
  readonly onSort: (column: Column, isNumber: boolean) => void
}) {
  return (
    <thead>
      <tr>
        {HEADS.filter(([column]) => isShown(shown, column)).map(([column, title, isNumber]) => (
          <Head
            key={column}
            title={title}
            isNumber={isNumber}
            direction={selection.column === column ? (selection.descending ? 'descending' : 'ascending') : 'none'}
            onSort={() => onSort(column, isNumber)}
          />
        ))}
        <th scope="col">last TTFTs</th>
        <th scope="col">
          <span class="hidden">drain</span>
        </th>
      </tr>
    </thead>
  )
}

interface HeadProps {
  readonly title: string
  readonly isNumber: boolean
  readonly direction: 'ascending' | 'descending' | 'none'
  readonly onSort: () => void
}

function Head({ title, isNumber, direction, onSort }: HeadProps) {
  return (
    <th scope="col" aria-sort={direction} class={isNumber ? 'number' : ''}>
      <button type="button" onClick={onSort}>
        {title}
        <span aria-hidden="true">{direction === 'none' ? '' : direction === 'ascending' ? ' ↑' : ' ↓'}</span>
      </button>
    </th>
  )
}
