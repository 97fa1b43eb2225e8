/** Query of a request as engines get it. */

/**
 * The query without `model`. The model of the body alone was checked against the models of the key, and some gateways
 * prefer the one of the query.
 */
export function engineQuery(query: string): string {
  if (query === '') return ''
  const kept = query
    .slice(1)
    .split('&')
    .filter((pair) => nameOf(pair) !== 'model')
  return kept.length === 0 ? '' : `?${kept.join('&')}`
}

const nameOf = (pair: string): string => (new URLSearchParams(pair).keys().next().value ?? '').toLowerCase()
