/**
 * Example request bodies by operation, which the page for trying the API fills in. Source: the API document's examples.
 */
export const requestExamples: Readonly<Record<string, Readonly<Record<string, { summary: string; value: object }>>>> = {
  'submit-supplier-changes': {
    create: {
      summary: 'A new supplier',
      value: {
        change_data: {
          suppliers: [
            {
              external_id: 'V-1001',
              name: 'Northwind Metals',
              contacts: [{ name: 'Ada Berg', email: 'ada.berg@northwind.example' }],
            },
          ],
        },
      },
    },
    update: {
      summary: 'Another name, one contact more, one less',
      value: {
        change_data: {
          suppliers: [
            {
              external_id: 'V-1001',
              name: 'Northwind Metals AS',
              contacts: [
                { name: 'Ole Dahl', email: 'ole.dahl@northwind.example' },
                { email: 'ada.berg@northwind.example', delete: true },
              ],
            },
          ],
        },
      },
    },
  },
  'create-sourcing-event': {
    chairs: {
      summary: 'A price for each lot, times the volume',
      value: {
        name: 'Office chairs 2031',
        description: 'Two sites, one delivery each',
        primary_cost_calculation: '[Unit Price] * [Annual Volume]',
        settings: { is_test: true },
        bid_sheet: {
          column_roles: { lot_identifier: 'Lot', volume: 'Annual Volume' },
          columns: [
            { name: 'Lot', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
            {
              name: 'Annual Volume',
              column_type: 'INPUT',
              input_by: 'BUYER_INPUT',
              input_type: 'NUMBER',
              precision: 0,
            },
            {
              name: 'Unit Price',
              column_type: 'INPUT',
              input_by: 'SUPPLIER_INPUT',
              input_type: 'CURRENCY',
              precision: 2,
            },
          ],
          lots: [
            {
              name: 'Oslo',
              values: [
                { column: 'Lot', value: 'Oslo' },
                { column: 'Annual Volume', value: '400' },
              ],
            },
          ],
        },
      },
    },
  },
  'create-sourcing-event-from-template': {
    again: {
      summary: 'The same sheet, another name and new suppliers',
      value: {
        template: '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10',
        name: 'Office chairs 2032',
        suppliers: [{ external_id: 'V-1001' }],
      },
    },
  },
  'update-sourcing-event': {
    description: {
      summary: 'Another description',
      value: { sourcing_event: '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10', description: 'Three sites, one delivery each' },
    },
  },
  'attach-files-to-sourcing-event': {
    both: {
      summary: 'One file in the request, one from a server',
      value: {
        sourcing_event: '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10',
        files: [
          { file_name: 'terms.txt', content_type: 'text/plain', content: 'UGF5bWVudCB3aXRoaW4gMzAgZGF5cy4=' },
          { file_name: 'drawing.pdf', url: 'https://files.example.com/drawing.pdf' },
        ],
      },
    },
  },
  'attach-files-to-sourcing-request': {
    one: {
      summary: 'One file',
      value: {
        sourcing_request: '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10',
        files: [{ file_name: 'terms.txt', content_type: 'text/plain', content: 'UGF5bWVudCB3aXRoaW4gMzAgZGF5cy4=' }],
      },
    },
  },
  'submit-job': {
    links: {
      summary: 'Download links',
      value: { type: 'GENERATE_FILE_DOWNLOAD_LINKS', file_uuids: ['7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10'] },
    },
  },
  'create-sourcing-request': {
    chairs: {
      summary: 'What is needed, with one item',
      value: {
        name: 'Office chairs',
        needed_by: '2031-03-01T00:00:00Z',
        tags: [{ name: 'Region', value: 'EMEA' }],
        items: [{ name: 'Task chair', quantity: '400', unit: 'piece', target_price: '120.00', currency: 'EUR' }],
      },
    },
  },
  'generate-file-download-links': {
    one: { summary: 'One file', value: { file_uuids: ['7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10'] } },
  },
  'update-webhook': {
    triggers: { summary: 'Other triggers', value: { triggers: ['AWARDS_FEED_UPDATED', 'JOB_UPDATED'] } },
    resume: { summary: 'Resume a disabled webhook', value: { is_active: true } },
  },
  'create-webhook': {
    signed: {
      summary: 'Signed notifications',
      value: {
        name: 'ERP',
        url: 'https://erp.example.com/hooks/sourcing',
        triggers: ['SOURCING_EVENTS_FEED_UPDATED', 'AWARDS_FEED_UPDATED'],
      },
    },
    token: {
      summary: 'With a bearer token from an OAuth server',
      value: {
        name: 'ERP',
        url: 'https://erp.example.com/hooks/sourcing',
        triggers: ['AWARDS_FEED_UPDATED'],
        authentication: {
          type: 'OAUTH_CLIENT_CREDENTIALS',
          parameters: {
            access_token_url: 'https://login.example.com/oauth2/token',
            client_id: 'sourcing',
            client_secret: 'the secret of that client',
            scope: 'erp.write',
          },
        },
      },
    },
  },
};
