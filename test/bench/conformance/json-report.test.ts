import { expect, it } from 'vitest'
import { jsonReport } from '../../../packages/bench/conformance/json-report.ts'
import type { RowResult } from '../../../packages/bench/conformance/page.ts'

const result = (name: string, passed: boolean, figures?: Readonly<Record<string, number>>): RowResult => ({
  name,
  passed,
  seen: 'seen',
  detail: 'not in the report',
  seconds: 3,
  date: '2026-11-28',
  ...(figures === undefined ? {} : { figures }),
})

it('the JSON of a conformance run has the largest value of each figure, those of failed rows included', () => {
  const results = [
    result('of-8', true, { real_error_median: 0.1, real_error_p90: 0.3 }),
    result('of-32', false, { real_error_median: 0.2 }),
    result('other', true),
  ]
  expect(jsonReport(results)).toEqual({
    rows: [
      { row: 'of-8', passed: true, seen: 'seen', seconds: 3 },
      { row: 'of-32', passed: false, seen: 'seen', seconds: 3 },
      { row: 'other', passed: true, seen: 'seen', seconds: 3 },
    ],
    headline: { real_error_median: 0.2, real_error_p90: 0.3 },
  })
})
