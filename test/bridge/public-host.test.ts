import { expect, test } from 'vitest';
import { webhookUrlOf } from '#bridge/operate/webhooks/webhook-deps.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';

const urlFor = (host: string) => webhookUrlOf(bridgeSettings.parse({ public_host: host, port: 8443 }), 'main');

test.each([
  ['hooks.example.com', 'https://hooks.example.com:8443/webhooks/main'],
  ['203.0.113.7', 'https://203.0.113.7:8443/webhooks/main'],
  ['2001:db8::7', 'https://[2001:db8::7]:8443/webhooks/main'],
  ['[2001:db8::7]', 'https://[2001:db8::7]:8443/webhooks/main'],
])('public_host %s makes the URL %s', (host, url) => {
  expect(urlFor(host)).toBe(url);
});

test.each([
  ['https://hooks.example.com', 'without a scheme'],
  ['http://203.0.113.7:80', 'without a scheme'],
  ['hooks.example.com:8443', 'without a port'],
  ['[2001:db8::7]:8443', 'without a port'],
  ['hooks.example.com/path', 'must be a host name or an IP address'],
  ['fe80::1%eth0', 'must be a host name or an IP address'],
  ['', 'must be a host name or an IP address'],
])('public_host %s is refused, and the message says why', (host, why) => {
  const result = bridgeSettings.safeParse({ public_host: host });
  expect(result.error?.issues).toMatchObject([{ path: ['public_host'], message: expect.stringContaining(why) }]);
});
