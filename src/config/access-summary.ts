/** Summary of who may use the gateway, and within which limits. */
import type { Config, KeySecret } from '../config.ts'
import type { KeyLimits } from '../core/limits/key-limits.ts'

export function callersText({ keys, jwt, issuedKeys, open, loopback }: Config): string {
  const others = [
    ...(jwt === null ? [] : [`tokens of ${jwt.issuer}`]),
    ...(issuedKeys === null ? [] : ['keys made at run time']),
  ]
  if (keys === null && others.length > 0) return others.join(', ')
  if (keys === null) return open ? 'anyone who can reach it' : loopback ? 'anyone on this machine' : 'no one'
  return keys
    .map((key) => {
      const models = key.models === null ? 'all models' : key.models.join(', ')
      const team = key.team === null ? '' : `; team ${key.team}`
      const rights = `${key.allowOverrides ? '; may override' : ''}${key.edge ? '; another gateway' : ''}`
      const regions = key.regions === null ? '' : `; only in ${key.regions.join(', ')}`
      const valid = secretsText(key.secrets)
      const priority = key.priority === null ? '' : `; priority ${key.priority}`
      const requestClass = key.class === 'standard' ? '' : `; ${key.class}`
      const limits = key.limits === null ? '' : `; ${limitsText(key.limits)}`
      return `${key.name} (${models}${team}${regions}${rights}${priority}${requestClass}${limits}${valid})`
    })
    .concat(others)
    .join(', ')
}

function secretsText(secrets: readonly KeySecret[]): string {
  const times = secrets.map(({ from, expires }) =>
    [...(from === null ? [] : [`from ${from}`]), ...(expires === null ? [] : [`until ${expires}`])].join(' '),
  )
  if (secrets.length === 1) return times[0] === '' ? '' : `; ${times[0]}`
  return `; ${secrets.length} secrets: ${times.map((time) => time || 'at any time').join(', ')}`
}

export function adminText({ admin, keys, jwt, open, loopback }: Config): string {
  if (admin !== null) return 'with its key'
  return loopback && keys === null && jwt === null && !open ? 'anyone on this machine' : 'no one'
}

export const limitsText = (limits: KeyLimits): string =>
  [
    ['requests a minute', limits.requestsPerMin] as const,
    ['tokens a minute', limits.tokensPerMin] as const,
    ['tokens a day', limits.tokensPerDay] as const,
    ['at the same time', limits.concurrent] as const,
  ]
    .filter(([, limit]) => limit !== null)
    .map(([unit, limit]) => `${limit} ${unit}`)
    .join(', ')
