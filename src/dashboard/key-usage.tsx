import type { KeysView } from '../api/openapi/key.ts'
import type { BudgetView, UsageView } from '../api/openapi/usage.ts'
import { count, number, percent } from './format.ts'
import { usageByTeam, type UsageRow } from './key-text.ts'

interface KeyUsageProps {
  readonly list: KeysView
  readonly usage: UsageView
  readonly onRefresh: () => Promise<void>
}

/** Requests, tokens and costs by key, team and model, since the start of the gateway. */
export function KeyUsage({ list, usage, onRefresh }: KeyUsageProps) {
  const teams = usageByTeam(list.keys, usage.teams)
  return (
    <section aria-labelledby="key-usage">
      <div class="head">
        <h2 id="key-usage">Usage</h2>
        <span class="dim">since {usage.since.replace('T', ' ').replace(/\.\d+Z$/, ' UTC')}</span>
        <button type="button" class="small" onClick={() => void onRefresh()}>
          Refresh
        </button>
      </div>
      {usage.keys.length === 0 ? (
        <p class="empty">No request has ended since the start.</p>
      ) : (
        <UsageTable title="key" rows={usage.keys} />
      )}
      {teams.length > 0 && <UsageTable title="team" rows={teams} />}
      {usage.models === undefined ? (
        <p class="dim">
          Usage by model and engine seconds are counted for pools with <code>cost</code> in the configuration.
        </p>
      ) : (
        usage.models.length > 0 && <UsageTable title="model" rows={usage.models} />
      )}
      {usage.budgets !== undefined && usage.budgets.length > 0 && <BudgetTable budgets={usage.budgets} />}
    </section>
  )
}

const COLUMNS: readonly (readonly [name: keyof UsageRow, title: string, text: (value: number) => string])[] = [
  ['requests', 'requests', count],
  ['refused', 'refused', count],
  ['prompt_tokens', 'prompt tokens', count],
  ['cached_tokens', 'of them cached', count],
  ['output_tokens', 'output tokens', count],
  ['engine_s', 'engine seconds', number],
  ['money', 'money', number],
]

/** Columns without a value in any row are left out. */
function UsageTable({ title, rows }: { readonly title: 'key' | 'team' | 'model'; readonly rows: readonly UsageRow[] }) {
  const columns = COLUMNS.filter(([name]) => rows.some((row) => row[name] !== undefined))
  return (
    <table class="lines usage" data-usage={title}>
      <caption class="hidden">Usage by {title}</caption>
      <thead>
        <tr>
          <th scope="col">{title}</th>
          {columns.map(([name, text]) => (
            <th key={name} scope="col" class="number">
              {text}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row[title]}>
            <th scope="row">{row[title]}</th>
            {columns.map(([name, text, format]) => (
              <td key={name} data-label={text} class="number">
                {row[name] === undefined ? '–' : format(row[name] as number)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** Share from which the gateway warns. */
const WARNING_SHARE = 0.8

function BudgetTable({ budgets }: { readonly budgets: readonly BudgetView[] }) {
  return (
    <table class="lines usage" data-usage="budget">
      <caption class="hidden">Budgets</caption>
      <thead>
        <tr>
          <th scope="col">budget of</th>
          <th scope="col">period</th>
          <th scope="col" class="number">
            used
          </th>
          <th scope="col" class="number">
            limit
          </th>
          <th scope="col" class="number">
            share
          </th>
        </tr>
      </thead>
      <tbody>
        {budgets.map(({ account, per, unit, used, limit }) => (
          <tr key={`${account} ${per} ${unit}`}>
            <th scope="row">{account}</th>
            <td data-label="period">
              {unit.replaceAll('_', ' ')} per {per}
            </td>
            <td data-label="used" class="number">
              {number(used)}
            </td>
            <td data-label="limit" class="number">
              {number(limit)}
            </td>
            <td data-label="share" class="number">
              <span class={used >= limit ? 'bad' : used >= WARNING_SHARE * limit ? 'warn' : ''}>
                {percent(used / limit)}
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
