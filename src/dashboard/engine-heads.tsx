import type { Column, Selection } from './engine-selection.ts'
import { isShown, type ShownColumns } from './shown-columns.ts'

interface HeadOf {
  readonly column: Column
  readonly title: string
  readonly isNumber: boolean
  readonly about: string
}

const words = (column: Column, title: string, about: string): HeadOf => ({ column, title, about, isNumber: false })

const numbers = (column: Column, title: string, about: string): HeadOf => ({ column, title, about, isNumber: true })

const HEADS: readonly HeadOf[] = [
  words('engine', 'engine', 'Name of the engine and version of its server.'),
  words('cluster', 'cluster', 'Cluster and model of its pool.'),
  words('role', 'role', 'Legs of requests that it computes.'),
  words('state', 'state', 'Whether it may get requests, and if not, why.'),
  numbers('running', 'running', 'Requests of this gateway that run or wait there.'),
  numbers('blocks', 'active blocks', 'KV blocks of these requests.'),
  numbers('queue', 'prefill queue', 'Predicted time until the queued prompts are computed.'),
  numbers('waiting', 'waiting', 'Requests that wait inside the engine, as it reports.'),
  numbers('kv', 'KV use', 'KV cache in use, as the engine reports.'),
  numbers('hits', 'hit rate', 'Share of prompt tokens that were cached, decayed mean.'),
  numbers('ttft', 'TTFT', 'Time to the first token, decayed mean.'),
  numbers('error', 'prediction error', 'Error of the predicted TTFT as a share of the actual one, decayed mean.'),
  numbers('requests', 'requests', 'Requests that were placed there since the start.'),
  numbers('failures', 'failures', 'Attempts that failed there since the start.'),
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
        {HEADS.filter(({ column }) => isShown(shown, column)).map(({ column, title, isNumber, about }) => (
          <Head
            key={column}
            title={title}
            about={about}
            isNumber={isNumber}
            direction={selection.column === column ? (selection.descending ? 'descending' : 'ascending') : 'none'}
            onSort={() => onSort(column, isNumber)}
          />
        ))}
        <th scope="col" title="The last 40 times to the first token, oldest first.">
          last TTFTs
        </th>
        <th scope="col">
          <span class="hidden">drain</span>
        </th>
      </tr>
    </thead>
  )
}

interface HeadProps {
  readonly title: string
  readonly about: string
  readonly isNumber: boolean
  readonly direction: 'ascending' | 'descending' | 'none'
  readonly onSort: () => void
}

function Head({ title, about, isNumber, direction, onSort }: HeadProps) {
  return (
    <th scope="col" aria-sort={direction} class={isNumber ? 'number' : ''}>
      <button type="button" title={about} onClick={onSort}>
        {title}
        <span aria-hidden="true">{direction === 'none' ? '' : direction === 'ascending' ? ' ↑' : ' ↓'}</span>
      </button>
    </th>
  )
}
