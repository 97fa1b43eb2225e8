import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { curlOf } from '../../src/dashboard/request-examples.ts'

describe('the curl command', () => {
  it.each(["it's", "'; exit 1 #", 'a "b" $HOME `id`'])(
    'the curl command survives a shell when the model is called %s',
    (model) => {
      const seen = execFileSync('sh', ['-c', curlOf('http://h/v1', model).replace(/^curl/, `printf '%s\\n'`)], {
        encoding: 'utf8',
      })
        .trimEnd()
        .split('\n')
      expect(seen.slice(0, 5)).toEqual([
        '-N',
        'http://h/v1/chat/completions',
        '-H',
        'content-type: application/json',
        '-d',
      ])
      expect(JSON.parse(seen[5]!)).toMatchObject({ model })
    },
  )
})
