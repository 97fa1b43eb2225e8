import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { CASE_FILES } from '../../../packages/bench/ranks/cases.ts'
import { rowOf } from '../../../packages/bench/ranks/run-cases.ts'

const CASE = { number: 1, title: 'x', types: ['vllm'], tests: [/serves/, /waits/] }

it('a case passes if each of its tests exists and passes', () => {
  const outcomes = ['serves a', 'serves b', 'waits'].map((fullName) => ({ fullName, status: 'passed' }))
  expect(rowOf(CASE, outcomes)).toMatchObject({ tests: 3, failed: '' })
})

it('a case fails by a test that fails, and by one that does not exist', () => {
  expect(rowOf(CASE, [{ fullName: 'serves a', status: 'failed' }]).failed).toBe('serves a; no test waits')
})

it('the files of all cases exist', () => {
  for (const file of CASE_FILES) expect(existsSync(file), file).toBe(true)
})
