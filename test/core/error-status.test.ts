import { describe, expect, it } from 'vitest'
import { statusOfNames } from '../../src/core/error-status.ts'

describe('statuses of errors', () => {
  it('the first known name of an error gives its status', () => {
    expect(statusOfNames(null, 'unheard_of', 'overloaded', 'BadRequestError')).toBe(529)
  })

  it.each(['constructor', 'toString', '__proto__', '', 404])('%o names no status', (name) => {
    expect(statusOfNames(name)).toBeNull()
  })
})
