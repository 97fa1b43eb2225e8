/** Fields of a key in words, and the body of a new key. */
import type { KeyView } from '../api/openapi/key.ts'
import type { UsageView } from '../api/openapi/usage.ts'
import { count } from './format.ts'

/** Usage of a key, a team or a model. */
export type UsageRow = Partial<UsageView['keys'][number]> & { readonly team?: string; readonly model?: string }

const UNITS: Readonly<Record<string, string>> = {
  requests_per_min: 'requests/min',
  tokens_per_min: 'tokens/min',
  tokens_per_day: 'tokens/day',
  concurrent: 'at once',
}

/** Empty: no limit of its own. */
export const limitTexts = ({ limits }: Pick<KeyView, 'limits'>): readonly string[] =>
  Object.entries(limits ?? {}).flatMap(([name, limit]) =>
    limit === null ? [] : [`${count(limit)} ${UNITS[name] ?? name.replaceAll('_', ' ')}`],
  )

/** Time from which the key is rejected, that of its last secret. null: never. */
export function expiryOf({ expires, secrets = [] }: Pick<KeyView, 'expires' | 'secrets'>): string | null {
  if (expires != null) return expires
  if (secrets.length === 0 || secrets.some((secret) => secret.expires === null)) return null
  return secrets
    .map((secret) => secret.expires!)
    .toSorted((a, b) => Date.parse(a) - Date.parse(b))
    .at(-1)!
}

export const isExpired = (expires: string | null, now: number): boolean =>
  expires !== null && Date.parse(expires) <= now

/** Requests and tokens of the keys of each team, which the gateway counts by key. */
export function usageByTeam(keys: readonly KeyView[], costs: readonly UsageRow[] = []): readonly UsageRow[] {
  const teams = new Map<string, UsageRow>(costs.map((row) => [row.team!, row]))
  for (const { team, usage } of keys) {
    if (team === null || usage === undefined) continue
    const known = teams.get(team)
    teams.set(team, {
      ...known,
      team,
      requests: (known?.requests ?? 0) + usage.requests,
      refused: (known?.refused ?? 0) + usage.refused,
      prompt_tokens: (known?.prompt_tokens ?? 0) + usage.prompt_tokens,
      output_tokens: (known?.output_tokens ?? 0) + usage.output_tokens,
    })
  }
  return [...teams.values()].toSorted((a, b) => a.team!.localeCompare(b.team!))
}

const LIMITS = Object.keys(UNITS)

/** Body of a new key from the fields of the form; empty fields are left out. The gateway checks the values. */
export function newKeyBody(fields: Readonly<Record<string, string>>): object {
  const given = Object.entries(fields).flatMap(([name, text]): [string, string][] =>
    text.trim() === '' ? [] : [[name, text.trim()]],
  )
  const limits = given.filter(([name]) => LIMITS.includes(name)).map(([name, text]) => [name, Number(text)])
  const others = given
    .filter(([name]) => !LIMITS.includes(name))
    .map(([name, text]) => [name, name === 'models' ? text.split(/[\s,]+/) : text])
  return { ...Object.fromEntries(others), ...(limits.length === 0 ? {} : { limits: Object.fromEntries(limits) }) }
}
