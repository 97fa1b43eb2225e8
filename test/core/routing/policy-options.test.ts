import { expect, it } from 'vitest'
import type { PolicyConfig } from '../../../src/core/contract/pool-config.ts'
import { policyNamed } from './ranked-policy.ts'

it.each([
  ['active_blocks', { overlapWeight: -1 }, /overlapWeight must be a number from 0 to 100, got -1/],
  ['active_blocks', { rule: 'tomorrow' }, /rule must be one of pull_request, today/],
  ['predicted', { tempreature: 1 }, /Unknown policy option 'tempreature'; known: .*temperature/],
  ['ttft', { sharedCache: 1 }, /sharedCache must be a boolean/],
])('invalid options of %s are rejected: %j', (name, options, message) => {
  expect(() => policyNamed(name, options as PolicyConfig['options'])).toThrow(message)
})
