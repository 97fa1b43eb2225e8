import { expect, it } from 'vitest'
import { installFailure } from '../../../packages/bench/conformance/install-failure.ts'

it.each([
  [
    "'install x' failed (1):\nnpm error     at emit (node:x:1:1)\nnpm error   code: 'ECONNREFUSED',",
    'npm reports ECONNREFUSED',
  ],
  ["'install x' failed (1):\nnpm error code E404\nnpm error 404 Not Found", 'npm reports E404'],
  [
    "'install x' failed (1):\nERROR: No matching distribution for x==1\n[notice] y",
    'No matching distribution for x==1',
  ],
  ["'install x' took more than 300 s.", "'install x' took more than 300 s."],
])('the reason of a failed installation is found in %j', (message, reason) =>
  expect(installFailure(new Error(message))).toBe(reason),
)
